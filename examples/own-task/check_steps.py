"""Scores answers by their steps: `12+5=17` is one if it is right and begins where the one before ended.

A line for each answer on stdin, {"doc_id": 0, "prompt": "..", "answer": "..", "row": {..}}; a line for each on stdout, {"score": 0.8}.
"""

import json
import re
import sys

STEP = re.compile(r"(\d+)([+-])(\d+)=(\d+)")

for line in sys.stdin:
    asked = json.loads(line)
    events = asked["row"]["events"].split(", ")
    held, right = asked["row"]["start"], 0
    for a, sign, b, result in STEP.findall(asked["answer"])[: len(events)]:
        is_right = int(a) == held and int(result) == (int(a) + int(b) if sign == "+" else int(a) - int(b))
        right += is_right
        held = int(result)
    verdict = {"doc_id": asked["doc_id"], "score": right / len(events)}
    if right < len(events):
        verdict["why"] = f"{right} of {len(events)} steps are right"
    print(json.dumps(verdict))
