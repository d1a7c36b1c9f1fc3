/* SPDX-License-Identifier: Apache-2.0 */
/* The shape rules of ops: for every op a line that its rule accepts, and one that it refuses, with
 * the reason. The lines are IR text, so the reader and the verifier are tested as well. */
#include "sample.h"
#include "texts.h"

#include "ir/irtext.h"
#include "ir/shape.h"

#include <criterion/criterion.h>
#include <string.h>

/* Precedes each line. Mesh axes: 0 = d, 1 = t. */
static const char prologue[] =
    "mesh d=2, t=2\n"
    "store 0 : param f32[a=3] path=p pattern=p\n"
    "func g : fn { arg %x : f32[a=3, b=4] %y = exp(%x) : f32[a=3, b=4] return %y }\n"
    "func gk : kernel { arg %x : f32[a=3, b=4] %y = exp(%x) : f32[a=3, b=4] return %y }\n"
    "func body : body { arg %n : i32[] arg %x : f32[a=3, b=4] arg %w : f32[b=4]\n"
    "  %y = mul(%x, %w) : f32[a=3, b=4] %z = reduce[a](%y) : f32[b=4] return %y, %z }\n"
    /* queries p, keys q: attention, and its gradient of keys */
    "func ring : fn { arg %x : f32[p=4/d] arg %y : f32[q=6] %z = mul(%x, %y) : f32[p=4/d, q=6]\n"
    "  %o = reduce[q](%z) : f32[p=4/d] %g = reduce[p](%z) : f32[q=6]{sum d} return %o, %g }\n"
    "func rings : fn { arg %x : f32[p=4/d.t] arg %y : f32[q=8] %z = mul(%x, %y) : f32[p=4/d.t, "
    "q=8]\n"
    "  %o = reduce[q](%z) : f32[p=4/d.t] %g = reduce[p](%z) : f32[q=8]{sum d t} return %o, %g }\n"
    "func br : branch { arg %n : i32[] arg %r : u8[\"@ringbuf\"=2, \"@slot\"=64] arg %l : f32[l=2, "
    "b=4]\n"
    "  %x = at[l](%l, %n) : f32[b=4] ranges=(1 0 -1 0)\n"
    "  %p = ringbuf_put(%r, %x) : u8[\"@ringbuf\"=2, \"@slot\"=64] return %p }\n"
    "func odd : body { arg %n : i32[] arg %x : f32[a=3, b=4] %y = reduce[a](%x) : f32[b=4]\n"
    "  return %y }\n";
/* Arguments of the function, unless the line needs an entry function. */
static const char args[] =
    "  arg %x : f32[a=3, b=4]\n  arg %y : f32[b=4, c=5]\n  arg %v : f32[b=4]\n"
    "  arg %i : i32[b=4]\n  arg %j : i32[k=2]\n  arg %c : bool[a=3]\n  arg %h : bf16[a=3, b=4]\n"
    "  arg %o : f32[]\n  arg %l : f32[l=2, b=4]\n  arg %one : f32[a=3, u=1]\n"
    "  arg %s : f32[p=4/d, q=6]\n  arg %r : f32[p=4, q=6]{sum d}\n"
    "  arg %m : f32[p=4, q=6]{max d}\n  arg %z : f32[p=4/d.t, q=6]\n  arg %e : f32[p=4, q=6]\n"
    "  arg %u : f32[p=4, q=6]{sum t}\n  arg %f : f32[p=4/t, q=6]\n"
    "  arg %k : f32[\"@bucket\"=20]\n  arg %qp : f32[p=4/d]\n  arg %kd : f32[q=6/d]\n"
    "  arg %kt : f32[q=6/t]\n  arg %kw : f32[q=6]\n  arg %kz : f32[q=8/d~]\n"
    "  arg %pp : f32[p=4/d.t]\n  arg %kk : f32[q=8/d.t]\n  arg %ks : f32[q=8/t.d]\n  arg %kzz : "
    "f32[q=8/t.d~]\n"
    "  arg %kx : f32[q=8/d]\n  arg %t : i32[]\n  arg %ri : u8[\"@ringbuf\"=2, \"@slot\"=64]\n"
    "  arg %rd : u8[\"@ringbuf\"=2, \"@on.d\"=2/d, \"@slot\"=64]\n"
    "  %rg = ringbuf_get(%ri) : f32[b=4]\n";

static const struct {
    const char *line, *reason;
} cases[] = {
    /* sources */
    {"= param() : f32[a=3] text=p store=0", NULL},
    {"= param() : f32[a=4] text=p store=0", "its store is f32[a=3]"},
    {"= input() : i32[a=3] text=x", NULL},
    {"= input() : i32[a=3]", "no name"},
    {"= input() : f32[a=3]{sum d} text=x", "pending"},
    {"= const() : f32[] number=0.1", NULL},
    {"= const() : bool[] number=1", NULL},
    {"= const() : i32[] number=-2147483648", NULL},
    {"= const() : i32[] number=2147483648", "not a value of i32"},
    {"= const() : i32[] number=0.5", "not a value of i32"},
    {"= const() : bool[] number=nan", "not a value of bool"},
    {"= const() : f32[a=3]", "not a scalar"},
    {"= iota[a]() : i32[a=3]", NULL},
    {"= iota[a]() : i32[a=4/d]", NULL},
    {"= iota[b]() : i32[a=3]", "another axis"},
    {"= iota[a]() : f32[a=3]", "not i32"},
    {"= iota[a]() : i32[a=2147483648]", "does not fit"},
    {"= rng() : f32[a=3] draws=1 text=dropout", NULL},
    {"= rng() : bf16[a=3] draws=1 text=dropout", "not f32"},
    {"= rng() : f32[a=3] draws=1", "no site"},
    {"= rng() : f32[a=3] draws=4 text=dropout", NULL},
    {"= rng() : f32[a=3] draws=2 text=dropout", "2 elements from a call"},
    {"= rng() : f32[a=3] text=dropout", "0 elements from a call"},
    /* conditions, counters, rings */
    {"= when(%t, %ri, %l) : u8[\"@ringbuf\"=2, \"@slot\"=64] ranges=(0 0 0 2) func=br", NULL},
    {"= when(%t, %ri, %l) : u8[\"@ringbuf\"=2, \"@slot\"=64] ranges=(1 0 0 1) func=br", NULL},
    {"= when(%t, %ri, %l) : u8[\"@ringbuf\"=2, \"@slot\"=64] ranges=(1 0 0 2) func=br",
     "takes no element"},
    {"= when(%t, %ri, %l) : u8[\"@ringbuf\"=2, \"@slot\"=64] ranges=(2147483647 0 0 2147483647) "
     "func=br", "takes no element"},
    {"= when(%t, %ri, %l) : u8[\"@ringbuf\"=2, \"@slot\"=64] func=br", "stays otherwise"},
    {"= when(%t, %ri) : u8[\"@ringbuf\"=2, \"@slot\"=64] ranges=(0 0 0 2) func=br",
     "passes 2 operands"},
    {"= when(%t, %rd, %l) : u8[\"@ringbuf\"=2, \"@slot\"=64] ranges=(0 0 0 2) func=br",
     "operand 1"},
    {"= when(%x) : f32[a=3, b=4] func=g", "which is no branch"},
    {"= when(%x) : f32[a=3, b=4] func=nobody", "not defined"},
    {"= call(%t, %ri, %l) : u8[\"@ringbuf\"=2, \"@slot\"=64] func=br", "for `when` alone"},
    {"= loop(%ri, %l) : u8[\"@ringbuf\"=2, \"@slot\"=64] func=br loop(label=h axis=l count=2 "
     "carried=1 invariant=1)", "for `when` alone"},
    {"= turn() : i32[]", NULL},
    {"= turn() : f32[]", "where its rule gives i32[]"},
    {"= at[l](%l) : f32[b=4] ranges=(1 0 0 0)", NULL},
    {"= at[l](%l) : f32[b=4] ranges=(2 0 0 0)", "takes element 2 of 2"},
    {"= at[l](%l) : f32[b=4] ranges=(-1 0 0 0)", "takes element -1 of 2"},
    {"= at[b](%l) : f32[l=2] ranges=(0 0 0 0)", "leading axis"},
    {"= at[p](%s) : f32[q=6] ranges=(0 0 0 0)", "whole"},
    {"= at[l](%l) : f32[b=4]", "has an axis and a range"},
    {"= at[l](%l) : f32[b=4] ranges=(0 0 1 0)", "say nothing"},
    {"= at[l](%l, %o) : f32[b=4] ranges=(0 0 1 0)", "no `when` has looked at"},
    {"= at[l](%l, %t) : f32[b=4] ranges=(0 0 1 0)", "no `when` has looked at"},
    {"= ringbuf() : u8[\"@ringbuf\"=2, \"@slot\"=64]", NULL},
    {"= ringbuf(%ri) : u8[\"@ringbuf\"=2, \"@slot\"=64]", NULL},
    {"= ringbuf() : u8[\"@ringbuf\"=2, \"@slot\"=60]", "makes no"},
    {"= ringbuf() : f32[\"@ring\"=2, \"@slot\"=64]", "makes no"},
    {"= ringbuf(%x) : f32[a=3, b=4]", "which is no ring buffer"},
    {"= ringbuf(%ri, %ri) : u8[\"@ringbuf\"=2, \"@slot\"=64]", "takes one ring"},
    {"= ringbuf_put(%ri, %v) : u8[\"@ringbuf\"=2, \"@slot\"=64]", NULL},
    {"= ringbuf_put(%rd, %kd) : u8[\"@ringbuf\"=2, \"@on.d\"=2/d, \"@slot\"=64]", NULL},
    {"= ringbuf_put(%ri, %kd) : u8[\"@ringbuf\"=2, \"@slot\"=64]", "has no place"},
    {"= ringbuf_put(%ri, %y) : u8[\"@ringbuf\"=2, \"@slot\"=64]", "has no place"},
    {"= ringbuf_put(%ri, %v) : u8[\"@ringbuf\"=2, \"@slot\"=64] number=64", "has no place"},
    {"= ringbuf_put(%ri, %v) : u8[\"@ringbuf\"=2, \"@slot\"=64] number=8", "has no place"},
    {"= ringbuf_put(%ri, %v) : u8[\"@ringbuf\"=2, \"@slot\"=64] number=1e300", "has no place"},
    {"= ringbuf_put(%x, %v) : f32[a=3, b=4]", "which is no ring buffer"},
    {"= ringbuf_put(%ri, %ri) : u8[\"@ringbuf\"=2, \"@slot\"=64]", "has no place"},
    {"= ringbuf_get(%ri) : f32[b=4]", NULL},
    {"= ringbuf_get(%ri) : f32[b=4] number=-64", "has no place"},
    {"= ringbuf_get(%ri) : f32[b=17]", "has no place"},
    {"= ringbuf_get(%ri) : f32[p=4]{sum d}", "has no place"},
    {"= ringbuf_get(%v) : f32[b=4]", "which is no ring buffer"},
    {"= ringbuf_turn(%ri) : u8[\"@ringbuf\"=2, \"@slot\"=64]", NULL},
    {"= done(%rg) : f32[b=4]", NULL},
    {"= done(%ri) : u8[\"@ringbuf\"=2, \"@slot\"=64]", "`done` of a ring buffer"},
    {"= copy(%rg) : f32[b=4]", NULL},
    {"= copy(%ri) : u8[\"@ringbuf\"=2, \"@slot\"=64]", "`copy` of a ring buffer"},
    {"= ringbuf_turn(%v) : f32[b=4]", "which is no ring buffer"},
    /* maps of one operand */
    {"= neg(%x) : f32[a=3, b=4]", NULL},
    {"= neg(%r) : f32[p=4, q=6]{sum d}", NULL},
    {"= neg(%m) : f32[p=4, q=6]{max d}", "pending"},
    {"= neg(%c) : bool[a=3]", "does not take bool"},
    {"= abs(%i) : i32[b=4]", NULL},
    {"= abs(%r) : f32[p=4, q=6]{sum d}", "not linear"},
    {"= floor(%x) : f32[a=3, b=4]", NULL},
    {"= floor(%i) : i32[b=4]", "does not take i32"},
    {"= exp(%x) : f32[a=3, b=4]", NULL},
    {"= exp(%x) : f32[b=4, a=3]", NULL},
    {"= exp(%x) : f32[a=3]", "other axes"},
    {"= exp(%r) : f32[p=4, q=6]", "not linear"},
    {"= exp(%s) : f32[p=4, q=6]", "where its rule gives f32[p=4/d, q=6]"},
    {"= log(%h) : bf16[a=3, b=4]", NULL},
    {"= log(%i) : i32[b=4]", "does not take i32"},
    {"= sqrt(%x) : f32[a=3, b=4]", NULL},
    {"= sqrt(%i) : i32[b=4]", "does not take i32"},
    {"= rsqrt(%x) : f32[a=3, b=4]", NULL},
    {"= rsqrt(%i) : i32[b=4]", "does not take i32"},
    {"= sin(%x) : f32[a=3, b=4]", NULL},
    {"= sin(%i) : i32[b=4]", "does not take i32"},
    {"= cos(%x) : f32[a=3, b=4]", NULL},
    {"= cos(%i) : i32[b=4]", "does not take i32"},
    {"= tanh(%x) : f32[a=3, b=4]", NULL},
    {"= tanh(%i) : i32[b=4]", "does not take i32"},
    {"= erf(%x) : f32[a=3, b=4]", NULL},
    {"= erf(%x, %x) : f32[a=3, b=4]", "takes 1 operands"},
    {"= not(%c) : bool[a=3]", NULL},
    {"= not(%x) : bool[a=3, b=4]", "does not take f32"},
    {"= stop(%m) : f32[p=4, q=6]{max d}", NULL},
    {"= stop(%x) : f32[a=3, b=5]", "where its rule gives"},
    {"= bind(%m) : f32[p=4, q=6]{max d} text=attend", NULL},
    {"= bind(%x) : f32[a=3, b=5]", "where its rule gives"},
    {"= cast(%x) : bf16[a=3, b=4]", NULL},
    {"= cast(%r) : bf16[p=4, q=6]{sum d}", NULL},
    {"= cast(%r) : i32[p=4, q=6]", "not linear"},
    {"= cast(%x) : bf16[a=3]", "other axes"},
    /* maps of two */
    {"= add(%x, %v) : f32[a=3, b=4]", NULL},
    {"= add(%y, %x) : f32[b=4, c=5, a=3]", NULL},
    {"= add(%x, %h) : f32[a=3, b=4]", "different dtypes"},
    {"= add(%x, %one) : f32[a=3, b=4]", "other axes"},
    {"= add(%r, %e) : f32[p=4, q=6]{sum d}", "mixes a pending"},
    {"= add(%s, %e) : f32[p=4/d, q=6]", "split differently"},
    {"= add(%r, %r) : f32[p=4, q=6]{sum d}", NULL},
    {"= add(%m, %m) : f32[p=4, q=6]{max d}", "not linear"},
    {"= sub(%x, %v) : f32[a=3, b=4]", NULL},
    {"= sub(%c, %c) : bool[a=3]", "does not take bool"},
    {"= mul(%r, %e) : f32[p=4, q=6]{sum d}", NULL},
    {"= mul(%r, %u) : f32[p=4, q=6]{sum d t}", NULL},
    {"= mul(%r, %r) : f32[p=4, q=6]{sum d}", "pending over the same mesh axis"},
    {"= mul(%m, %e) : f32[p=4, q=6]{max d}", "must be completed"},
    {"= div(%r, %e) : f32[p=4, q=6]{sum d}", NULL},
    {"= div(%e, %r) : f32[p=4, q=6]{sum d}", "not linear in its operand 1"},
    {"= div(%i, %i) : i32[b=4]", "does not take i32"},
    {"= floordiv(%i, %i) : i32[b=4]", NULL},
    {"= floordiv(%c, %c) : bool[a=3]", "does not take bool"},
    {"= mod(%i, %i) : i32[b=4]", NULL},
    {"= mod(%i, %v) : i32[b=4]", "different dtypes"},
    {"= pow(%x, %o) : f32[a=3, b=4]", NULL},
    {"= pow(%i, %i) : i32[b=4]", "does not take i32"},
    {"= max(%x, %v) : f32[a=3, b=4]", NULL},
    {"= max(%c, %c) : bool[a=3]", "does not take bool"},
    {"= min(%x, %v) : f32[a=3, b=4]", NULL},
    {"= min(%r, %e) : f32[p=4, q=6]", "not linear"},
    {"= lt(%x, %v) : bool[a=3, b=4]", NULL},
    {"= lt(%x, %v) : f32[a=3, b=4]", "where its rule gives bool"},
    {"= le(%i, %i) : bool[b=4]", NULL},
    {"= le(%c, %c) : bool[a=3]", "does not take bool"},
    {"= eq(%c, %c) : bool[a=3]", NULL},
    {"= eq(%r, %r) : bool[p=4, q=6]", "not linear"},
    {"= ne(%x, %v) : bool[a=3, b=4]", NULL},
    {"= ne(%i, %v) : bool[b=4]", "different dtypes"},
    {"= and(%c, %c) : bool[a=3]", NULL},
    {"= and(%i, %i) : i32[b=4]", "does not take i32"},
    {"= or(%c, %c) : bool[a=3]", NULL},
    {"= or(%x, %x) : f32[a=3, b=4]", "does not take f32"},
    {"= where(%c, %x, %v) : f32[a=3, b=4]", NULL},
    {"= where(%c, %r, %r) : f32[p=4, q=6, a=3]{sum d}", NULL},
    {"= where(%x, %x, %v) : f32[a=3, b=4]", "not bool"},
    {"= where(%c, %x, %h) : f32[a=3, b=4]", "different dtypes"},
    {"= where(%c, %r, %e) : f32[p=4, q=6, a=3]{sum d}", "mixes a pending"},
    /* axis operations */
    {"= relabel(%x) : f32[a=3, g=2, p=2] relabel(b -> g=2, p=2)", NULL},
    {"= relabel(%x) : f32[n=12] relabel(b, a -> n=12)", NULL},
    {"= relabel(%x) : f32[b=3, a=4] relabel(a -> b=3) relabel(b -> a=4)", NULL},
    {"= relabel(%x) : f32[b=4, a=3]", NULL},
    {"= relabel(%one) : f32[a=3] relabel(u ->)", NULL},
    {"= relabel(%z) : f32[g=2/d, h=2/t, q=6] relabel(p -> g=2, h=2)", NULL},
    {"= relabel(%s) : f32[n=24/d] relabel(p, q -> n=24)", NULL},
    {"= relabel(%s) : f32[n=24/d] relabel(q, p -> n=24)", "not the major axis"},
    {"= relabel(%z) : f32[g=1, h=4/d.t, q=6] relabel(p -> g=1, h=4)", NULL},
    {"= relabel(%z) : f32[h=4/d.t, q=6] relabel(p -> h=4)", NULL},
    {"= relabel(%x) : f32[a=3, g=2, p=3] relabel(b -> g=2, p=3)",
     "turns 4 elements along its axes into 6"},
    {"= relabel(%x) : f32[a=3] relabel(b ->)", "turns 4"},
    {"= relabel(%x) : f32[a=3, w=4] relabel(k -> w=4)", "does not have"},
    {"= relabel(%x) : f32[a=3, a=4] relabel(b -> a=4)", "same name"},
    {"= relabel(%x) : f32[a=3, c=4] relabel(b -> a=4)", "twice"},
    {"= relabel(%x) : f32[a=3, c=4, d=4] relabel(b -> c=4) relabel(b -> d=4)",
     "takes axis `b` twice"},
    {"= relabel(%x) : f32[a=3, c=0] relabel(b -> c=0)", "integer"},
    {"= relabel(%x) : f32[a=3, c=4] relabel(b -> c=0)", "no valid extent"},
    {"= relabel(%x) : f32[a=3, b=4] relabel(->)", "empty"},
    {"= slice[b](%x) : f32[a=3, b=2] ranges=(1 0 2 2)", NULL},
    {"= slice[a, b](%x) : f32[a=1, b=1] ranges=(2 0 1 1, 3 0 1 1)", NULL},
    {"= slice[q](%s) : f32[p=4/d, q=1] ranges=(5 0 9 1)", NULL},
    {"= slice[b](%x) : f32[a=3, b=2] ranges=(1 0 3 2)", "which has 4"},
    {"= slice[b](%x) : f32[a=3, b=2] ranges=(-1 0 1 2)", "which has 4"},
    {"= slice[b](%x) : f32[a=3, b=2] ranges=(1 0 9223372036854775807 2)", "which has 4"},
    {"= slice[b, b](%x) : f32[a=3, b=2] ranges=(1 0 1 2, 0 0 1 2)", "twice"},
    {"= slice[k](%x) : f32[a=3, b=4] ranges=(0 0 1 1)", "does not have"},
    {"= slice[b](%x) : f32[a=3, b=4]", "no ranges"},
    {"= slice[p](%s) : f32[p=2/d, q=6] ranges=(0 0 1 2)", "whole"},
    {"= pad[b](%x) : f32[a=3, b=13] ranges=(1 2 3 0)", NULL},
    {"= pad[b](%x) : f32[a=3, b=5] ranges=(0 1 1 0) number=-inf", NULL},
    {"= pad[q](%r) : f32[p=4, q=7]{sum d} ranges=(0 1 1 0)", NULL},
    {"= pad[q](%r) : f32[p=4, q=7]{sum d} ranges=(0 1 1 0) number=1", "not linear"},
    {"= pad[b](%i) : i32[b=5] ranges=(0 1 1 0) number=0.5", "fills integers"},
    {"= pad[b](%x) : f32[a=3, b=3] ranges=(-1 0 1 0)", "not possible"},
    {"= pad[b](%x) : f32[a=3, b=3] ranges=(9223372036854775807 1 1 0)", "not possible"},
    {"= pad[p](%s) : f32[p=5/d, q=6] ranges=(0 1 1 0)", "whole"},
    {"= concat[a](%x, %x) : f32[a=6, b=4]", NULL},
    {"= concat[b](%i, %i, %i) : i32[b=12]", NULL},
    {"= concat[a](%x, %y) : f32[a=6, b=4]", "other axes"},
    {"= concat[a](%x, %h) : f32[a=6, b=4]", "different dtypes"},
    {"= concat[k](%x, %x) : f32[a=6, b=4]", "does not have"},
    {"= concat[a]() : f32[a=6]", "needs operands"},
    {"= concat[p](%s, %s) : f32[p=8/d, q=6]", "whole"},
    {"= concat[q](%s, %f) : f32[p=4/d, q=12]", "differs in axis `p`"},
    {"= expand(%v) : f32[a=3, b=4, c=2/d]", NULL},
    {"= expand(%v) : f32[a=3]", "loses axis `b`"},
    {"= expand(%v) : f32[a=3, b=5]", "changes its extent"},
    {"= expand(%r) : f32[p=4, q=6, n=2/d]{sum d}", "used twice"},
    {"= terms[w](%r) : f32[w=2/d, p=4, q=6]", NULL},
    {"= terms[w](%r) : f32[w=2/t, p=4, q=6]", "needs a sum that is pending"},
    {"= terms[w](%r) : f32[w=4/d, p=4, q=6]", "needs a sum that is pending"},
    {"= terms[w](%r) : f32[w=2, p=4, q=6]{sum d}", "needs a sum that is pending"},
    {"= terms[w](%m) : f32[w=2/d, p=4, q=6]", "needs a sum that is pending"},
    {"= terms[w](%e) : f32[w=2/d, p=4, q=6]", "needs a sum that is pending"},
    {"= terms[p](%r) : f32[p=4, q=6]", "needs a result type with a new axis"},
    {"= terms[w](%r) : f32[w=2/d, p=4]", "has another axis"},
    {"= window[b, w](%x) : f32[a=3, b=2, w=3] ranges=(1 1 2 3)", NULL},
    {"= window[b, w](%x) : f32[b=4, w=1, a=3] ranges=(0 0 1 1)", NULL},
    {"= window[b, a](%x) : f32[a=3, b=2] ranges=(1 1 2 3)", "twice"},
    {"= window[b, w](%x) : f32[a=3, b=2, w=7] ranges=(1 1 1 7)", "does not fit"},
    {"= window[b, w](%x) : f32[a=3, b=2, w=3] ranges=(1 1 0 3)", "not possible"},
    {"= window[p, w](%s) : f32[p=4/d, q=6, w=1] ranges=(0 0 1 1)", "whole"},
    {"= window[b](%x) : f32[a=3, b=4] ranges=(0 0 1 1)", "needs two axes"},
    {"= fold[a, b](%x) : f32[a=6] ranges=(0 0 1 4)", NULL},
    {"= fold[a, b](%x) : f32[a=9] ranges=(0 0 2 4)", NULL},
    {"= fold[a, b](%x) : f32[a=10] ranges=(0 0 2 4)", "no transposed window"},
    {"= fold[a, b](%x) : f32[a=6] ranges=(0 0 1 3)", "no transposed window"},
    {"= fold[a, a](%x) : f32[a=6, b=4] ranges=(0 0 1 3)", "no transposed window"},
    /* contractions */
    {"= dot[b](%x, %y) : f32[a=3, c=5]", NULL},
    {"= dot[b](%x, %y) : f32[c=5, a=3]", NULL},
    {"= dot(%x, %v) : f32[a=3, b=4]", NULL},
    {"= dot[a, b](%h, %h) : bf16[]", NULL},
    {"= dot[a, b](%h, %h) : f32[]", NULL},
    {"= dot[p](%s, %s) : f32[q=6]{sum d}", NULL},
    {"= dot[p](%z, %z) : f32[q=6]{sum d t}", NULL},
    {"= dot[q](%r, %e) : f32[p=4]{sum d}", NULL},
    {"= dot[q](%r, %r) : f32[p=4]{sum d}", "same mesh axis"},
    {"= dot[q](%r, %s) : f32[p=4/d]", "not alike"},
    {"= dot[p](%s, %e) : f32[q=6]", "not alike"},
    {"= dot[q](%s, %f) : f32[p=4/d]", "not alike"},
    {"= dot[a](%x, %y) : f32[b=4, c=5]", "does not have"},
    {"= dot[b, b](%x, %y) : f32[a=3, c=5]", "twice"},
    {"= dot[b](%x, %i) : f32[a=3]", "one float dtype"},
    {"= dot[b](%i, %i) : i32[]", "one float dtype"},
    {"= dot[a, b](%h, %h) : f16[]", "not f16"},
    {"= reduce[a](%x) : f32[b=4]", NULL},
    {"= reduce[a](%h) : f32[b=4]", NULL},
    {"= reduce[a](%h) : bf16[b=4] reduce=max", NULL},
    {"= reduce[p](%s) : f32[q=6]{sum d}", NULL},
    {"= reduce[p](%s) : f32[q=6]{min d} reduce=min", NULL},
    {"= reduce[p](%m) : f32[q=6]{max d} reduce=max", NULL},
    {"= reduce[p](%r) : f32[q=6]{max d} reduce=max", "another kind"},
    {"= reduce[a](%h) : bf16[b=4]", "where its rule gives f32[b=4]"},
    {"= reduce[c](%x) : f32[a=3, b=4]", "does not have"},
    {"= reduce[a, a](%x) : f32[b=4]", "twice"},
    {"= reduce[a](%c) : bool[] reduce=max", "does not take bool"},
    {"= scan[b](%i) : i32[b=4] reverse", NULL},
    {"= scan[b, a](%x) : f32[a=3, b=4]", NULL},
    {"= scan[k](%x) : f32[a=3, b=4]", "does not have"},
    {"= scan[p](%s) : f32[p=4/d, q=6]", "whole"},
    {"= scan(%x) : f32[a=3, b=4]", "no axis"},
    {"= scan[a](%c) : bool[a=3]", "does not take bool"},
    {", %9 = topk[b, k](%x) : f32[a=3, k=2], i32[a=3, k=2]", NULL},
    {", %9 = topk[b, k](%x) : f32[k=4, a=3], i32[a=3, k=4]", NULL},
    {", %9 = topk[b, k](%x) : f32[a=3, k=5], i32[a=3, k=5]", "topk` of 5 among 4"},
    {", %9 = topk[b, k](%x) : f32[a=3, k=2], f32[a=3, k=2]", "where its rule gives i32"},
    {", %9 = topk[b, a](%x) : f32[a=2], i32[a=2]", "twice"},
    {", %9 = topk[p, k](%s) : f32[k=2, q=6], i32[k=2, q=6]", "whole"},
    {", %9 = topk[q, k](%r) : f32[p=4, k=2]{sum d}, i32[p=4, k=2]", "not linear"},
    {"= topk[b, k](%x) : f32[a=3, k=2]", "has 1 results, not 2"},
    /* indexing */
    {"= gather[a](%x, %j) : f32[k=2, b=4]", NULL},
    {"= gather[a](%x, %i) : f32[b=4]", NULL},
    {"= gather[b](%x, %i) : f32[a=3, b=4]", NULL},
    {"= gather[a, b](%x, %j, %i) : f32[k=2, b=4]", NULL},
    {"= gather[p](%s, %j) : f32[k=2, q=6]{sum d}", NULL},
    {"= gather[p](%r, %j) : f32[k=2, q=6]{sum d}", NULL},
    {"= gather[p](%m, %j) : f32[k=2, q=6]{max d}", NULL},
    {"= gather[a](%x, %v) : f32[b=4]", "not i32"},
    {"= gather[a](%x) : f32[b=4]", "one index for each"},
    {"= gather[k](%x, %j) : f32[a=3, b=4, k=2]", "does not have"},
    {"= gather[c](%y, %i) : f32[b=5]", "where its rule gives"},
    {"= gather(%x) : f32[a=3, b=4]", "one index for each"},
    {"= scatter_add[e; b](%x, %i) : f32[a=3, e=9]", NULL},
    {"= scatter_add[e; b](%x, %i) : f32[a=3, e=9/d]", NULL},
    {"= scatter_add[b; b](%x, %i) : f32[a=3, b=9]", NULL},
    {"= scatter_add[e, f; a, b](%x, %i, %i) : f32[e=2, f=2]", NULL},
    {"= scatter_add[e](%x, %i) : f32[a=3, b=4, e=9]", NULL},
    {"= scatter_add[e; b](%x, %j) : f32[a=3, e=9]", "which f32[a=3, b=4] does not have"},
    {"= scatter_add[a; b](%x, %i) : f32[a=3]", "twice"},
    {"= scatter_add[e; c](%x, %i) : f32[a=3, b=4, e=9]", "does not have"},
    {"= scatter_add[e; b](%x, %v) : f32[a=3, e=9]", "not i32"},
    {"= scatter_add[e; b](%x, %i) : f32[a=3]", "does not have"},
    /* structure */
    {"= call(%x) : f32[a=3, b=4] text=g func=g", NULL},
    {"= call(%y) : f32[a=3, b=4] func=g", "operand 0 of `call`"},
    {"= call(%x, %x) : f32[a=3, b=4] func=g", "passes 2 operands"},
    {"= call(%x) : f32[b=4, a=3] func=g", "where its rule gives"},
    {"= call(%x) : f32[a=3, b=4]", "results, not 0"},
    /* ring calls */
    {", %b = call[q](%qp, %kd) : f32[p=4/d], f32[q=6/d] func=ring mesh={d}", NULL},
    {", %b = call(%qp, %kw) : f32[p=4/d], f32[q=6]{sum d} func=ring", NULL},
    {", %b = call(%qp, %kd) : f32[p=4/d], f32[q=6/d] func=ring", "operand 1 of `call`"},
    {", %b = call[q](%qp, %kd) : f32[p=4/d], f32[q=6]{sum d} func=ring mesh={d}", "where its rule"},
    {", %b = call[q](%qp, %kw) : f32[p=4/d], f32[q=6/d] func=ring mesh={d}", "travels"},
    {", %b = call[q](%qp, %kt) : f32[p=4/d], f32[q=6/d] func=ring mesh={d}", "operand 1"},
    {", %b = call[q](%qp, %kd) : f32[p=4/d], f32[q=6/d] func=ring mesh={d t}", "operand 1"},
    {", %b = call[q](%qp, %kd) : f32[p=4/d], f32[q=6/d] func=ring", "mesh axes that exist"},
    {", %b = call[q](%pp, %kk) : f32[p=4/d.t], f32[q=8/d.t] func=rings mesh={d t}", NULL},
    {", %b = call[q](%pp, %ks) : f32[p=4/d.t], f32[q=8/t.d] func=rings mesh={d t}", NULL},
    {", %b = call[q](%pp, %kzz) : f32[p=4/d.t], f32[q=8/t.d~] func=rings mesh={d t}", NULL},
    {", %b = call[q](%pp, %ks) : f32[p=4/d.t], f32[q=8/d.t] func=rings mesh={d t}",
     "where its rule"},
    {", %b = call[q](%pp, %kk) : f32[p=4/d.t], f32[q=8/d.t] func=rings mesh={d}", "operand 1"},
    {", %b = call[q](%pp, %kx) : f32[p=4/d.t], f32[q=8/d] func=rings mesh={d t}", "operand 1"},
    {", %b = call[q](%pp, %kx) : f32[p=4/d.t], f32[q=8/d]{sum t} func=rings mesh={d}", NULL},
    {"= relabel(%kz) : f32[\"@ring\"=2/d, q=4] relabel(q -> \"@ring\"=2, q=4)", NULL},
    {"= relabel(%kzz) : f32[\"@ring\"=4/t.d, q=2] relabel(q -> \"@ring\"=4, q=2)", NULL},
    {"= relabel(%kzz) : f32[\"@ring.t\"=2/t, q=4/d~] relabel(q -> \"@ring.t\"=2, q=4)", NULL},
    {"= relabel(%kzz) : f32[\"@ring.t\"=2/t, q=4/d] relabel(q -> \"@ring.t\"=2, q=4)",
     "where its rule"},
    {"= relabel(%kzz) : f32[\"@ringt\"=2/t, q=4/d~] relabel(q -> \"@ringt\"=2, q=4)", "zigzag"},
    {"= relabel(%ks) : f32[\"@ring\"=4/t.d, q=2] relabel(q -> \"@ring\"=4, q=2)", NULL},
    {"= relabel(%kz) : f32[\"@ring\"=4/d, q=2] relabel(q -> \"@ring\"=4, q=2)", "takes `q` apart"},
    {"= relabel(%kz) : f32[r=2/d, q=4] relabel(q -> r=2, q=4)", "zigzag"},
    {"= fused(%x) : f32[a=3, b=4] func=gk", NULL},
    {"= fused(%x) : f32[a=3, b=5] func=gk", "where its rule gives"},
    {"= fused(%x) : f32[a=3, b=4] func=g", "which is no kernel"},
    {"= call(%x) : f32[a=3, b=4] func=gk", "which is a kernel"},
    {", %9 = loop(%x, %l) : f32[a=3, b=4], f32[l=2, b=4] func=body "
     "loop(label=h axis=l count=2 carried=1 stacked=1 stacked_out=1)",
     NULL},
    {", %9 = loop(%x, %v) : f32[a=3, b=4], f32[m=7, b=4] func=body "
     "loop(label=h axis=m count=7 reverse carried=1 invariant=1 stacked_out=1)",
     NULL},
    {", %9 = loop(%x, %l) : f32[a=3, b=4], f32[l=2, b=4] func=body "
     "loop(label=h axis=l count=3 carried=1 stacked=1 stacked_out=1)",
     "operand 1 of `loop` is f32[l=2, b=4], not f32[l=3, b=4]"},
    {", %9 = loop(%x, %l) : f32[a=3, b=4], f32[l=2, b=4] func=body "
     "loop(label=h axis=l count=2 carried=1 invariant=1 stacked_out=1)",
     "operand 1 of `loop`"},
    {", %9 = loop(%x, %l) : f32[a=3, b=4], f32[l=2, b=4] func=body "
     "loop(label=h axis=l count=0 carried=1 stacked=1 stacked_out=1)",
     "runs 0 times"},
    {"= loop(%x, %l) : f32[a=3, b=4] func=body loop(label=h axis=l count=2 carried=1 stacked=1)",
     "its body 3 inputs and 2 results"},
    {", %9 = loop(%x, %l) : f32[a=3, b=4], f32[b=2, b2=4] func=body "
     "loop(label=h axis=b count=2 carried=1 stacked=1 stacked_out=1)",
     "twice"},
    {"= loop(%x) : f32[b=4] func=odd loop(label=h axis=l count=2 carried=1)", "carried result 0"},
    {", %9 = loop(%x, %l) : f32[a=3, b=4], f32[l=2, b=4] func=body "
     "loop(axis=l count=2 carried=1 stacked=1 stacked_out=1)",
     "no name"},
    {"= pack(%x, %y) : f32[\"@bucket\"=32]", NULL},
    {"= pack[p](%r, %r) : f32[p=4, \"@bucket\"=12]{sum d}", NULL},
    {"= pack[q](%f) : f32[q=6, \"@split\"=2/t, \"@bucket\"=2]", "keeps axis `q`"},
    {"= pack[p](%s, %s) : f32[p=4/d, \"@bucket\"=12]", NULL},
    {"= pack[p](%s) : f32[p=4, \"@bucket\"=6]", "where its rule gives f32[p=4/d, \"@bucket\"=6]"},
    {"= pack[p](%s, %e) : f32[p=4/d, \"@bucket\"=12]", "beside"},
    {"= pack(%f) : f32[\"@split\"=2/t, \"@bucket\"=12]", NULL},
    {"= pack(%f, %e) : f32[\"@bucket\"=48]", "beside"},
    {"= pack(%x) : f32[\"@bucket\"=11]", "a bucket of 11 elements for 12"},
    {"= unpack(%k) : f32[a=3, b=4] number=8", NULL},
    {"= unpack(%k) : f32[a=3, b=4] number=9", "12 elements from element 9 of 20"},
    {"= unpack(%x) : f32[a=3, b=4]", "no whole bucket"},
    /* communication */
    {"= all_gather(%s) : f32[p=4, q=6] mesh={d}", NULL},
    {"= all_gather(%z) : f32[p=4/d, q=6] mesh={t}", NULL},
    {"= all_gather(%z) : f32[p=4, q=6] mesh={d t}", NULL},
    {"= all_gather(%z) : f32[p=4/t, q=6] mesh={d}", "does not lead"},
    {"= all_gather(%s) : f32[p=4, q=6] mesh={t}", "does not lead"},
    {"= all_gather(%s) : f32[p=4, q=6]", "no mesh axes"},
    {"= all_gather(%s) : f32[p=4, q=6] mesh={7}", "do not exist"},
    {"= reduce_scatter(%r) : f32[p=4, q=6/d] mesh={d}", NULL},
    {"= reduce_scatter(%r) : f32[p=4, q=6] mesh={d}", "does not lead"},
    {"= reduce_scatter(%r) : f32[p=4, q=6/t] mesh={d}", "does not lead"},
    {"= all_reduce(%r) : f32[p=4, q=6] mesh={d}", NULL},
    {"= all_reduce(%m) : f32[p=4, q=6] mesh={d}", NULL},
    {"= all_reduce(%e) : f32[p=4, q=6] mesh={d}", "does not lead"},
    {"= all_reduce(%r) : f32[p=4, q=6]{sum d} mesh={d}", "does not lead"},
    {"= all_to_all(%s) : f32[p=4, q=6/d] mesh={d}", NULL},
    {"= all_to_all(%z) : f32[p=4/d, q=6/t] mesh={t}", NULL},
    {"= all_to_all(%z) : f32[p=4/t, q=6/d] mesh={d}", "does not lead"},
    {"= shift(%s) : f32[p=4/d, q=6] mesh={d}", NULL},
    {"= shift(%s) : f32[p=4, q=6] mesh={d}", "does not lead"},
    {"= partner[p](%pp) : f32[p=4/d.t] number=2 mesh={d t}", NULL},
    {"= partner[p](%e) : f32[p=4, q=6] reverse", NULL},
    {"= partner[p](%s) : f32[p=4/d, q=6] mesh={d}", "has one element, or all"},
    {"= partner[p](%pp) : f32[p=4/d.t] mesh={d}", "has one element, or all"},
    {"= partner[q](%ks) : f32[q=8/t.d] mesh={d t}", "has one element, or all"},
    {"= partner[p](%e) : f32[p=4, q=6] number=4", "round 3 of 3"},
    {"= partner[p](%e) : f32[p=4, q=6] number=1 reverse", "round 0 of 3"},
    {"= partner[a](%e) : f32[p=4, q=6]", "along one axis"},
    {"= shard(%e) : f32[p=4/d.t, q=6] mesh={d t}", NULL},
    {"= shard(%s) : f32[p=4/d.t, q=6] mesh={t}", NULL},
    {"= shard(%r) : f32[p=4/d, q=6] mesh={d}", "does not lead"},
};

static const char *kind_of(const char *line, char buf[32])
{
    const char *at = strstr(line, "= ") + 2;
    size_t n = strcspn(at, "([");
    snprintf(buf, 32, "%.*s", (int)n, at);
    return buf;
}

static bool needs_entry(const char *kind)
{
    return strcmp(kind, "param") == 0 || strcmp(kind, "input") == 0 || strcmp(kind, "turn") == 0;
}

/* Sets ret_message to the message for a module around the line, or "" if it is accepted. */
static void check_line(const char *line, DtText *ret_message)
{
    DtArena *arena = dt_arena_new();
    DtDiags *diags = dt_diag_new(arena);
    char kind[32];
    bool entry = needs_entry(kind_of(line, kind));
    const char *text =
        dt_arena_printf(arena, "%sfunc f : %s {\n%s  %s%s\n}\n", prologue, entry ? "entry" : "fn",
                        entry ? "" : args, line[0] == '(' ? "" : "%7 ", line);
    dt_text_add(ret_message, "");
    if (!dt_irtext_read(arena, diags, text, strlen(text))) {
        char *out = diags_text(diags);
        dt_text_add(ret_message, out);
        free(out);
    }
    dt_arena_free(arena);
}

Test(shape, rules)
{
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        DtText message = {0};
        check_line(cases[i].line, &message);
        if (cases[i].reason)
            cr_expect(strstr(message.at, cases[i].reason), "%s\nwanted: %s\ngot: %s", cases[i].line,
                      cases[i].reason, message.at);
        else
            cr_expect_str_eq(message.at, "", "%s\ngot: %s", cases[i].line, message.at);
        dt_text_free(&message);
    }
}

Test(shape, every_op_is_taken_and_refused)
{
    for (int op = 0; op < DT_OP_COUNT; op++) {
        bool taken = false, refused = false;
        for (size_t i = 0; i < DT_COUNT(cases); i++) {
            char kind[32];
            if (strcmp(kind_of(cases[i].line, kind), dt_op_info[op].text) == 0)
                *(cases[i].reason ? &refused : &taken) = true;
        }
        cr_expect(taken && refused, "`%s` has no case of both sorts", dt_op_info[op].text);
    }
}

/* A zero may be added to a pending sum, since it is zero on every rank. */
Test(shape, zero_joins_a_pending_sum)
{
    static const char *const texts[] = {
        "mesh d=2 func f : fn { arg %r : f32[p=4]{sum d} arg %c : bool[p=4] %z = const() : f32[] "
        "%s",
        " = where(%c, %r, %z) : f32[p=4]{sum d} %t = add(%r, %z) : f32[p=4]{sum d} }"};
    char text[400];
    DtArena *arena = dt_arena_new();
    snprintf(text, sizeof text, "%s%s", texts[0], texts[1]);
    cr_expect(dt_irtext_read(arena, NULL, text, strlen(text)));
    char *number = strstr(text, "f32[] ") + 5;
    memmove(number + 9, number, strlen(number) + 1);
    memcpy(number, " number=1", 9);
    cr_expect_null(dt_irtext_read(arena, NULL, text, strlen(text)), "%s", text);
    dt_arena_free(arena);
}

/* Asks for a type before an op is built, as the frontend does. */
Test(shape, asking)
{
    DtArena *arena = dt_arena_new();
    DtModule *module = dt_graph_module(arena, NULL);
    DtFunc *func = dt_graph_func(module, "f", DT_FUNC_FN);
    DtAxis short_axis = sample_axis("a", 3), long_axis = sample_axis("a", 5);
    DtValue *x = dt_graph_arg(func, sample_type(DT_F32, 1, &short_axis), "x");
    DtValue *y = dt_graph_arg(func, sample_type(DT_F32, 1, &long_axis), "y");
    DtOp op = {.kind = DT_OP_ADD, .in = (DtValue *[]){x, y}, .n_in = 2};
    const DtType *type;
    cr_expect_str_eq(dt_shape_check(&op, NULL, NULL, &type),
                     "axis `a` is 3 in one operand and 5 in another");
    op.in[1] = x;
    cr_expect_null(dt_shape_check(&op, NULL, NULL, &type));
    cr_expect_eq(type, x->type);
    dt_arena_free(arena);
}
