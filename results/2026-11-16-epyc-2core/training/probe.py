import sys; sys.path.insert(0,'/work/main/tools/train')
state=sys.argv[1]; layers=sys.argv[2]
sys.argv=['x','--family','llada','.train/models/llada-s1x','--cofill','/tmp/cofill-train','--layers',layers]
import train, numpy as np, torch, re
torch.set_num_threads(1)
a=train.arguments(); d=train.Data(a)
m=train.Model(train.Shape('llada',128,int(layers),4,4,512,d.vocab,1e-5))
m.load_state_dict(torch.load(state,weights_only=True)['model']); m.eval()
ex=d.examples('code','validation',300,7)
num={}
for t,i in d.tokenizer.get_vocab().items():
    if i in d.numbers: num.setdefault(int(t.lstrip('Ġ')),[]).append(i)
stat={}
def add(k,v): stat.setdefault(k,[]).append(v)
for e in ex:
    p=d.encode([e['prompt']])[0]; an=d.encode([e['answer']])[0]
    ids=p+an+[d.end]*(e['length']-len(an))
    toks=[d.tokenizer.decode([i],skip_special_tokens=False) for i in ids]
    nl=[i for i,x in enumerate(ids) if x==d.newline and i>=len(p)]
    # lines 3, 4 numbers
    def nums(l): return [i for i in range(nl[l-1]+1, nl[l]) if ids[i] in d.numbers]
    n3,n4=nums(3),nums(4)
    assert len(n3)==4 and len(n4)==4
    val=lambda i:int(toks[i])
    v2,r3,tgt=val(n3[1]),val(n3[3]),val(n4[3])
    s3=1 if '+' in ''.join(toks[n3[0]-1]) else -1
    s4=1 if '+' in ''.join(toks[n4[0]-1]) else -1
    feas=[(a_,b_) for a_ in range(1,8) for b_ in range(1,8) if v2+s3*a_+s4*b_==tgt and 1<=v2+s3*a_<=30]
    def run(hide):
        x=torch.tensor([ids]); at=torch.zeros_like(x,dtype=torch.bool); at[0,hide]=True
        with torch.no_grad(): lg=m(x.masked_fill(at,d.mask),torch.ones_like(at),at)
        return dict(zip(sorted(hide),lg.double().softmax(-1)))
    def P(dist,v): return sum(dist[i].item() for i in num[v])
    free=[n3[0],n3[2],n3[3],n4[0],n4[1],n4[2]]
    o=run(free)
    R={v2+s3*a_ for a_,_ in feas}; A={a_ for a_,_ in feas}; B={b_ for _,b_ in feas}
    add('0 mass of feasible r3',sum(P(o[n3[3]],v) for v in R)); add('0 max r3',o[n3[3]].max().item())
    add('0 feasible c3',sum(P(o[n3[0]],v) for v in A)); add('0 max c3',o[n3[0]].max().item())
    add('0 feasible c4',sum(P(o[n4[0]],v) for v in B)); add('0 max c4',o[n4[0]].max().item())
    best=max([n3[0],n3[2],n3[3],n4[0],n4[1],n4[2]],key=lambda i:o[i].max().item())
    w=int(d.tokenizer.decode([o[best].argmax().item()]) or -1)
    ok= w in (A if best in (n3[0],n3[2]) else B if best in (n4[0],n4[2]) else R)
    add('0 first pick feasible',ok); add('0 1/|feasible|',1/len(feas)); add('0 first pick where %d'%free.index(best),ok)
    # c4 known with copy: r3 hidden and c3 hidden
    o=run([n3[0],n3[2],n3[3],n4[1]]); add('c4 known: r3 right',o[n4[1]].argmax().item()==ids[n4[1]]); add('c4 known: r3 (line 3) right',o[n3[3]].argmax().item()==ids[n3[3]]);add('c4 known: c3 right',o[n3[0]].argmax().item()==ids[n3[0]])
    o=run([n3[3],n4[0],n4[1],n4[2]]); add('c3 known: r3 right',o[n3[3]].argmax().item()==ids[n3[3]]); add('c3 known: c4 right',o[n4[0]].argmax().item()==ids[n4[0]])
    o=run([n3[0],n3[2],n4[0],n4[2]]); add('r3 known: c3 right',o[n3[0]].argmax().item()==ids[n3[0]]); add('r3 known: c4 right',o[n4[0]].argmax().item()==ids[n4[0]]);add('r3 known: c3 max',o[n3[0]].max().item())
for k,v in sorted(stat.items()): print(f'{k:32s} {np.mean(v):.3f} n={len(v)}')
