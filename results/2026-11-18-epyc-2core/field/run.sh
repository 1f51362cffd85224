#!/bin/sh
# Every line of eval.jsonl: COFILL=target/debug/cofill sh run.sh > eval.jsonl   (the dev profile is optimised)
# A check that the samplers do what they say, not a comparison: few prompts, the default ones, no grid.
for task in code chain predicates sums; do
  for model in tiny-llada tiny-dream; do
    for sampler in fast-published:0.75 fast-profile fast:0.75 fast-sum:0.75 less clad topk:1 oracle oracle:64,0.1; do
      "${COFILL:-cofill}" eval --task "$task" -m "$model" -s "$sampler" --limit 40 --json
    done
  done
done
