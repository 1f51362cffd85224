#!/usr/bin/env bash
# Everything that is in this folder, in order, with nothing else running. COFILL names the release build, COFILL_PEER_PYTHON a Python with
# torch 2.15 and llama-cpp-python 0.3.36, PRODUCTS the example of cofill-kernels; W is a folder with 6 GB to spare.
set -euo pipefail
cd "$(dirname "$0")"
: "${COFILL:?}" "${PRODUCTS:?}" "${W:?}" "${COFILL_PEER_PYTHON:?}"
{ date -u +%FT%TZ; git rev-parse --short HEAD; lscpu | grep -E 'Model name|^CPU\(s\)'; uptime; } > machine.txt
"$PRODUCTS" 20 > products.txt
COFILL_KERNELS=avx2 "$PRODUCTS" 20 > products-avx2.txt
"$COFILL" bench forward --layers 9 --dtype f32,f16,bf16,q8_0,q4k --peer torch --peer llama.cpp --rounds 6 --json > forward.jsonl
COFILL_KERNELS=avx2 ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 \
  "$COFILL" bench forward --layers 9 --dtype f32,f16,bf16,q8_0,q4k --peer torch --rounds 3 --json > forward-avx2.jsonl
for masked in 256 512; do
  "$COFILL" bench forward --vocab 126464 --masked $masked --dtype f32,q4k --rounds 5 --json > head-$masked.jsonl
done
for pace in 1 4 8; do
  for cache in dual prefix; do
    "$COFILL" bench decode --dtype q4k --tokens-per-forward $pace --cache off --cache $cache --json
  done
  "$COFILL" bench decode --dtype q4k --tokens-per-forward $pace --cache auto:inf --json # commits what dual commits, and measures
done > decode.jsonl
"$COFILL" bench errors --peer llama.cpp --dtype q4k --json > errors-q4k.json
"$COFILL" bench errors --peer llama.cpp --dtype q8_0 --json > errors-q8_0.json
"$COFILL" bench growth --json > growth.json
"$COFILL" bench overhead --json > overhead.json
"$COFILL" bench write "$W/8b.gguf" --like GSAI-ML/LLaDA-8B-Instruct --dtype q4k
"$COFILL" models inspect "$W/8b.gguf" > 8b-inspect.txt || true
"$COFILL" bench forward --file "$W/8b.gguf" --rounds 2 --json > 8b.json
gzip -9nf growth.json overhead.json
uptime >> machine.txt
