#!/bin/bash
# Accuracy with and without a constraint on the form of the answer.
R=$1; B=$2
sums='([0-9]{1,2}[-+*/][0-9]{1,2}=[0-9]{1,2}\n){3,9}([0-9]{1,2}[-+*/][0-9]{1,2}=[0-9]{1,2})'
sudoku='([1-4] [1-4] [1-4] [1-4]\n){3}[1-4] [1-4] [1-4] [1-4]'
for m in tiny-llada tiny-dream; do for t in sums sudoku; do for s in topk:4 topk:4+ad eb:1+ad; do
  n=$(echo $s | tr -d ':+.')
  $B eval --task $t -m $m -s $s --limit 200 --out $R/$m-$t-$n-free.jsonl 2>&1 | tail -1
  $B eval --task $t -m $m -s $s --limit 200 --regex "${!t}" --out $R/$m-$t-$n-held.jsonl 2>&1 | tail -1
done; done; done
