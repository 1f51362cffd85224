"""llama.cpp by the low-level functions of llama-cpp-python. Orders and answers are JSON lines.

The whole canvas is one batch with logits for every row, so that every row goes through every block. Only `llama_decode` is timed.
"""

import ctypes
import glob
import json
import os
import sys
import time

sys.path = [place for place in sys.path if place]  # the folder that we were started in may have a llama_cpp.py


def say(**answer):
    print(json.dumps(answer), flush=True)


try:
    import llama_cpp as c
    import numpy as np
except ImportError as error:
    say(missing=f"llama_cpp ({error})")
    sys.exit(0)

THREADS = int(sys.argv[1])
silent = c.llama_log_callback(lambda *_: None)
c.llama_log_set(silent, ctypes.c_void_p(0))


class Context:
    """A model and one way to compute its attention."""

    def __init__(self, model, positions, vocab, flash):
        self.positions, self.vocab = positions, vocab
        params = c.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = positions
        params.n_threads = params.n_threads_batch = THREADS
        params.flash_attn_type = flash
        self.context = c.llama_init_from_model(model, params)
        if not self.context:
            raise RuntimeError("llama.cpp makes no context for this model")
        c.llama_set_causal_attn(self.context, False)
        self.batch = c.llama_batch_init(positions, 0, 1)
        self.batch.n_tokens = positions
        for i in range(positions):
            self.batch.pos[i], self.batch.n_seq_id[i], self.batch.seq_id[i][0], self.batch.logits[i] = i, 1, 0, 1

    def time(self, tokens=None):
        for i in range(self.positions):
            self.batch.token[i] = i * 7919 % (self.vocab - 2) if tokens is None else tokens[i]
        memory = c.llama_get_memory(self.context)
        if memory:
            c.llama_memory_clear(memory, True)
        begun = time.perf_counter()
        code = c.llama_decode(self.context, self.batch)
        c.llama_synchronize(self.context)
        took = (time.perf_counter() - begun) * 1e3
        if code:
            raise RuntimeError(f"llama_decode answers {code}")
        return took

    def argmax(self, tokens):
        self.time(tokens)
        rows = (np.ctypeslib.as_array(c.llama_get_logits_ith(self.context, i), (self.vocab,)) for i in range(self.positions))
        return [int(row.argmax()) for row in rows]


def contexts(file, positions, vocab):
    params = c.llama_model_default_params()
    params.n_gpu_layers = 0
    model = c.llama_model_load_from_file(os.fsencode(file), params)
    if not model:
        raise RuntimeError(f"llama.cpp cannot load {file}")
    ways = {
        "flash attention off": c.LLAMA_FLASH_ATTN_TYPE_DISABLED,
        "flash attention on": c.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    }
    made = {name: Context(model, positions, vocab, way) for name, way in ways.items()}
    for context in made.values():
        context.time()
    return made


class Pointers(ctypes.Structure):
    """gguf_init_params: whether to leave the data in the file, and where to put the context."""

    _fields_ = [("no_alloc", ctypes.c_bool), ("context", ctypes.POINTER(ctypes.c_void_p))]


class Memory(ctypes.Structure):
    """ggml_init_params."""

    _fields_ = [("size", ctypes.c_size_t), ("buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


def library(name):
    """A library of the package, with functions that return pointers unless told."""
    folder = os.path.join(os.path.dirname(c.__file__), "lib")
    found = sorted(glob.glob(os.path.join(folder, f"*{name}.*")), key=len)
    if not found:
        raise RuntimeError(f"the package has no library {name} in {folder}")
    return ctypes.CDLL(found[0])


def function(lib, name, result, *arguments):
    made = getattr(lib, name)
    made.restype, made.argtypes = result, arguments
    return made


def errors(order):
    """Of one product by ggml and by whoever asks, against the dequantised weights in f64."""
    base, cpu = library("ggml-base"), library("ggml-cpu")
    pointer, integer, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
    inputs, outputs, rows = order["inputs"], order["outputs"], order["rows"]
    numbers = lambda path, shape: np.fromfile(path, dtype="<f4").reshape(shape)
    x, ours = numbers(order["activations"], (rows, inputs)), numbers(order["ours"], (rows, outputs))

    loaded = pointer()
    load = function(base, "gguf_init_from_file", pointer, ctypes.c_char_p, Pointers)
    if not load(os.fsencode(order["file"]), Pointers(False, ctypes.pointer(loaded))):
        raise RuntimeError(f"ggml cannot read {order['file']}")
    weights = function(base, "ggml_get_tensor", pointer, pointer, ctypes.c_char_p)(loaded, order["tensor"].encode())
    if not weights:
        raise RuntimeError(f"{order['file']} has no {order['tensor']}")
    data = function(base, "ggml_get_data", pointer, pointer)

    context = function(base, "ggml_init", pointer, Memory)(Memory((rows * (inputs + outputs) * 4) + (64 << 20), None, False))
    given = function(base, "ggml_new_tensor_2d", pointer, pointer, integer, size, size)(context, 0, inputs, rows)
    ctypes.memmove(data(given), x.ctypes.data, x.nbytes)
    product = function(base, "ggml_mul_mat", pointer, pointer, pointer, pointer)(context, weights, given)
    graph = function(base, "ggml_new_graph", pointer, pointer)(context)
    function(base, "ggml_build_forward_expand", None, pointer, pointer)(graph, product)
    if function(cpu, "ggml_graph_compute_with_ctx", integer, pointer, pointer, integer)(context, graph, THREADS):
        raise RuntimeError("ggml cannot compute the product")
    theirs = np.ctypeslib.as_array(ctypes.cast(data(product), ctypes.POINTER(ctypes.c_float)), (rows, outputs)).copy()

    n = inputs * outputs
    kind = {"q4k": "q4_K", "q6k": "q6_K", "q8_0": "q8_0"}.get(order["type"])
    if kind:
        exact = np.empty(n, np.float32)
        function(base, f"dequantize_row_{kind}", None, pointer, pointer, size)(data(weights), exact.ctypes.data, n)
    elif order["type"] in ("f16", "f32"):
        width = {"f16": 2, "f32": 4}[order["type"]]
        exact = np.frombuffer(ctypes.string_at(data(weights), n * width), dtype=f"<f{width}")
    elif order["type"] == "bf16":
        halves = np.frombuffer(ctypes.string_at(data(weights), n * 2), dtype="<u2")
        exact = (halves.astype(np.uint32) << 16).view(np.float32)
    else:
        raise RuntimeError(f"no exact numbers of the type {order['type']}")
    exact = x.astype(np.float64) @ exact.reshape(outputs, inputs).astype(np.float64).T
    function(base, "ggml_free", None, pointer)(context)
    function(base, "ggml_free", None, pointer)(loaded)
    scale = np.sqrt((exact**2).mean())
    relative = lambda got: float(np.sqrt(((got - exact) ** 2).mean()) / scale)
    largest = lambda got: float(np.abs(got - exact).max() / scale)
    return {"ours": relative(ours), "theirs": relative(theirs), "ours_largest": largest(ours), "theirs_largest": largest(theirs)}


say(package="llama.cpp", version=c.__version__)
open_files = {}
for line in sys.stdin:
    try:
        order = json.loads(line)
        if order["do"] == "open":
            open_files[order["id"]] = contexts(order["file"], order["positions"], order["vocab"])
            say(kernels=c.llama_print_system_info().decode())
        elif order["do"] == "time":
            say(ms={name: context.time() for name, context in open_files[order["id"]].items()})
        elif order["do"] == "argmax":
            say(argmax={name: context.argmax(order["tokens"]) for name, context in open_files[order["id"]].items()})
        elif order["do"] == "errors":
            say(**errors(order))
        else:
            say(error=f"unknown order {order['do']}")
    except Exception as error:
        say(error=f"{type(error).__name__}: {error}")
