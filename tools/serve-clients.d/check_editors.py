"""What programs send that are no package: Open WebUI, llama.cpp's page, Continue, llama.vim, llama.vscode. Bodies as their sources write them."""

import json
import urllib.error
import urllib.request

from harness import ASK, EXPECT, KEY, KEYED, OPEN, checks, run, same

table, check = checks()


def post(path, body, url=OPEN, **headers):
    """The answer's content type and text."""
    named = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    request = urllib.request.Request(url + path, json.dumps(body).encode(), named)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.headers["content-type"], answer.read().decode()


def get(path):
    with urllib.request.urlopen(OPEN + path, timeout=10) as answer:
        return json.load(answer)


def events(text):
    """The objects of a stream, read as strictly as it is written: one line of data for each event, [DONE] at the end."""
    lines = [event for event in text.split("\n\n") if event and not event.startswith(":")]
    same(lines[-1], "data: [DONE]")
    assert all(line.startswith("data: ") and "\n" not in line for line in lines), lines
    return [json.loads(line[len("data: "):]) for line in lines[:-1]]


def content(chunks):
    return "".join((chunk["choices"][0]["delta"].get("content") or "") for chunk in chunks if chunk["choices"])


@check("Open WebUI")
def _():
    for path in ["/models", "/v1/models"]:
        same([model["id"] for model in get(path)["data"]], EXPECT.models)
    kind, text = post("/v1/chat/completions", {
        "stream": True, "model": EXPECT.model, "messages": ASK, "max_tokens": 64, "stream_options": {"include_usage": True},
        "user": {"name": "a", "id": "1"}, "metadata": {"chat_id": "x"}, "tools": []}, accept="*/*")
    assert kind.startswith("text/event-stream"), kind
    chunks = events(text)
    same(content(chunks), EXPECT.answer)
    assert chunks[-1]["usage"]["completion_tokens"] > 0 and "timings" in chunks[-1]


@check("llama.cpp's page")
def _():
    props = get("/props")
    assert props["default_generation_settings"]["n_ctx"] > 0 and "modalities" in props and "chat_template" in props
    get("/slots")
    _, text = post("/v1/chat/completions", {
        "messages": ASK, "stream": True, "return_progress": True, "timings_per_token": True, "reasoning_format": "auto", "reasoning_control": True, "max_tokens": -1,
        "temperature": 0, "dynatemp_range": 0, "dynatemp_exponent": 1, "top_k": 40, "top_p": 0.95, "min_p": 0, "samplers": ["top_k", "temperature"], "backend_sampling": False,
        "repeat_last_n": 64, "repeat_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0, "dry_multiplier": 0}, X_Conversation_Id="c1")
    assert content(events(text))


@check("Continue, OpenAI: fim with a delta")
def _():
    body = {"model": EXPECT.model, "prompt": EXPECT.prefix, "suffix": EXPECT.suffix, "max_tokens": EXPECT.gap, "temperature": 0, "top_p": None,
            "frequency_penalty": None, "presence_penalty": None, "stop": ["\n\n", "/src/"], "stream": True}
    chunks = events(post("/v1/fim/completions", body, authorization="Bearer none", x_api_key="none")[1])
    same(content(chunks), EXPECT.filling)
    same("".join(chunk["choices"][0]["text"] for chunk in chunks if chunk["choices"]), EXPECT.filling)


@check("Continue, Inception: completions with a suffix")
def _():
    body = {"model": EXPECT.model, "prompt": EXPECT.prefix, "suffix": EXPECT.suffix, "max_tokens": EXPECT.gap, "presence_penalty": 1.5, "stop": ["\n\n", "\n \n"], "stream": True}
    chunks = events(post("/v1/completions", body)[1])
    same("".join(chunk["choices"][0]["text"] for chunk in chunks if chunk["choices"]), EXPECT.filling)
    # A blank suffix is sent as the end-of-text marker.
    events(post("/v1/completions", {**body, "suffix": "<|endoftext|>"})[1])
    whole = json.loads(post("/v1/completions", {**body, "stream": False})[1])
    assert "presence_penalty" in whole["warning"]


@check("Continue, Inception: edits")
def _():
    file = "<|current_file_content|>\ncurrent_file_path: a.py\n4*2*<|code_to_edit|>9<|cursor|><|/code_to_edit|>=8\n<|/current_file_content|>"
    text = f"<|recently_viewed_code_snippets|>\n\n<|/recently_viewed_code_snippets|>\n\n{file}\n\n<|edit_diff_history|>\n\n<|/edit_diff_history|>"
    body = {"model": EXPECT.model, "messages": [{"role": "user", "content": text}], "max_tokens": 64, "temperature": 0.2, "presence_penalty": 1.0}
    whole = json.loads(post("/v1/edit/completions", body)[1])
    same(whole["object"], "edit.completion")
    assert whole["choices"][0]["message"]["content"].startswith("```"), whole
    events(post("/v1/edit/completions", {**body, "stream": True})[1])


@check("Continue, llama.cpp: completion")
def _():
    whole = json.loads(post("/completion", {"prompt": EXPECT.question + "\n", "n_predict": 64, "stop": ["\n\n"], "stream": False, "mirostat": 0}, KEYED, x_api_key=KEY)[1])
    assert whole["content"] and whole["stop"] is True and whole["stop_type"] in ("eos", "limit", "word"), whole


VIM = {"input_extra": [{"filename": "b.py", "text": "x"}], "prompt": "", "n_indent": 0, "top_k": 40, "top_p": 0.99, "samplers": ["top_k", "top_p", "infill"],
       "stream": False, "cache_prompt": True, "t_max_prompt_ms": 500, "t_max_predict_ms": 1000}


@check("llama.vim: infill and warm-up")
def _():
    fields = ["content", "timings/prompt_n", "timings/predicted_n", "truncated", "tokens_cached"]
    body = {**VIM, "input_extra": [], "input_prefix": EXPECT.prefix, "input_suffix": EXPECT.suffix, "n_predict": EXPECT.gap, "response_fields": fields}
    whole = json.loads(post("/infill", body)[1])
    same(whole["content"], EXPECT.filling)
    assert "predicted_n" in whole and "model" not in whole, whole
    same(json.loads(post("/infill", {**body, **VIM, "n_predict": 0, "response_fields": [""]})[1]).get("content", ""), "")


@check("a mistake is said in words")
def _():
    for path, body in [("/infill", {"n_predict": "many"}), ("/completion", {"prompt": 7}), ("/tokenize", {}), ("/v1/edit/completions", {"model": EXPECT.model, "messages": ASK})]:
        try:
            raise AssertionError(f"{path} {body}: {post(path, body)}")
        except urllib.error.HTTPError as error:
            same(error.code, 400, path)
            said = json.load(error)["error"]
            assert said["message"] and said["type"] == "invalid_request_error", said


run("editors and pages", table)
