//! What `cofill` without arguments suggests; the README shows the same.

#[cfg(feature = "embedded")]
pub(crate) const TRY: &str = "Try:
  cofill generate --show \\
    \"Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?\"
  cofill generate -s topk:4 --template \"Fill the gaps:
[MASK:1]*[MASK:1]*[MASK:1]=[MASK:1]
[MASK:1]*4*[MASK:1]=24
[MASK:1]+6+[MASK:1]=13
4*2*[MASK:1]=8
[MASK:1]+[MASK:1]+[MASK:1]=[MASK:1]\"
and the same with -s topk:4+ad";
#[cfg(not(feature = "embedded"))]
pub(crate) const TRY: &str = "Try:
  cofill generate -m toy -n 6 -s topk:2 --show
  cofill generate -m toy -n 6 -s topk:2+ad --show";
