# ---- calls
dim batch = 4
fn g0(x[...]) -> [...] { return x + 1 }
fn g1(x[...]) -> [...] { return g0(x) }
fn g2(x[...]) -> [...] { return g1(x) }
fn g3(x[...]) -> [...] { return g2(x) }
fn g4(x[...]) -> [...] { return g3(x) }
fn g5(x[...]) -> [...] { return g4(x) }
fn g6(x[...]) -> [...] { return g5(x) }
fn g7(x[...]) -> [...] { return g6(x) }
fn g8(x[...]) -> [...] { return g7(x) }
fn g9(x[...]) -> [...] { return g8(x) }
fn g10(x[...]) -> [...] { return g9(x) }
fn g11(x[...]) -> [...] { return g10(x) }
fn g12(x[...]) -> [...] { return g11(x) }
fn g13(x[...]) -> [...] { return g12(x) }
fn g14(x[...]) -> [...] { return g13(x) }
fn g15(x[...]) -> [...] { return g14(x) }
fn g16(x[...]) -> [...] { return g15(x) }
fn g17(x[...]) -> [...] { return g16(x) }
fn g18(x[...]) -> [...] { return g17(x) }
fn g19(x[...]) -> [...] { return g18(x) }
fn g20(x[...]) -> [...] { return g19(x) }
fn g21(x[...]) -> [...] { return g20(x) }
fn g22(x[...]) -> [...] { return g21(x) }
fn g23(x[...]) -> [...] { return g22(x) }
fn g24(x[...]) -> [...] { return g23(x) }
fn g25(x[...]) -> [...] { return g24(x) }
fn g26(x[...]) -> [...] { return g25(x) }
fn g27(x[...]) -> [...] { return g26(x) }
fn g28(x[...]) -> [...] { return g27(x) }
fn g29(x[...]) -> [...] { return g28(x) }
fn g30(x[...]) -> [...] { return g29(x) }
fn g31(x[...]) -> [...] { return g30(x) }
fn g32(x[...]) -> [...] { return g31(x) }
fn g33(x[...]) -> [...] { return g32(x) }
fn g34(x[...]) -> [...] { return g33(x) }
fn g35(x[...]) -> [...] { return g34(x) }
fn g36(x[...]) -> [...] { return g35(x) }
fn g37(x[...]) -> [...] { return g36(x) }
fn g38(x[...]) -> [...] { return g37(x) }
fn g39(x[...]) -> [...] { return g38(x) }
fn g40(x[...]) -> [...] { return g39(x) }
fn g41(x[...]) -> [...] { return g40(x) }
fn g42(x[...]) -> [...] { return g41(x) }
fn g43(x[...]) -> [...] { return g42(x) }
fn g44(x[...]) -> [...] { return g43(x) }
fn g45(x[...]) -> [...] { return g44(x) }
fn g46(x[...]) -> [...] { return g45(x) }
fn g47(x[...]) -> [...] { return g46(x) }
fn g48(x[...]) -> [...] { return g47(x) }
fn g49(x[...]) -> [...] { return g48(x) }
fn g50(x[...]) -> [...] { return g49(x) }
fn g51(x[...]) -> [...] { return g50(x) }
fn g52(x[...]) -> [...] { return g51(x) }
fn g53(x[...]) -> [...] { return g52(x) }
fn g54(x[...]) -> [...] { return g53(x) }
fn g55(x[...]) -> [...] { return g54(x) }
fn g56(x[...]) -> [...] { return g55(x) }
fn g57(x[...]) -> [...] { return g56(x) }
fn g58(x[...]) -> [...] { return g57(x) }
fn g59(x[...]) -> [...] { return g58(x) }
fn g60(x[...]) -> [...] { return g59(x) }
fn g61(x[...]) -> [...] { return g60(x) }
fn g62(x[...]) -> [...] { return g61(x) }
fn g63(x[...]) -> [...] { return g62(x) }
fn g64(x[...]) -> [...] { return g63(x) }
fn g65(x[...]) -> [...] { return g64(x) }
fn g66(x[...]) -> [...] { return g65(x) }
fn g67(x[...]) -> [...] { return g66(x) }
fn g68(x[...]) -> [...] { return g67(x) }
fn g69(x[...]) -> [...] { return g68(x) }
model m(x[batch]) -> [batch] { return g69(x) }
# ---- doubling
dim batch = 4
fn g0(x[...]) -> [...] { return x + 1 }
fn g1(x[...]) -> [...] { return g0(g0(x)) }
fn g2(x[...]) -> [...] { return g1(g1(x)) }
fn g3(x[...]) -> [...] { return g2(g2(x)) }
fn g4(x[...]) -> [...] { return g3(g3(x)) }
fn g5(x[...]) -> [...] { return g4(g4(x)) }
fn g6(x[...]) -> [...] { return g5(g5(x)) }
fn g7(x[...]) -> [...] { return g6(g6(x)) }
fn g8(x[...]) -> [...] { return g7(g7(x)) }
fn g9(x[...]) -> [...] { return g8(g8(x)) }
fn g10(x[...]) -> [...] { return g9(g9(x)) }
fn g11(x[...]) -> [...] { return g10(g10(x)) }
fn g12(x[...]) -> [...] { return g11(g11(x)) }
fn g13(x[...]) -> [...] { return g12(g12(x)) }
fn g14(x[...]) -> [...] { return g13(g13(x)) }
fn g15(x[...]) -> [...] { return g14(g14(x)) }
fn g16(x[...]) -> [...] { return g15(g15(x)) }
fn g17(x[...]) -> [...] { return g16(g16(x)) }
fn g18(x[...]) -> [...] { return g17(g17(x)) }
fn g19(x[...]) -> [...] { return g18(g18(x)) }
fn g20(x[...]) -> [...] { return g19(g19(x)) }
fn g21(x[...]) -> [...] { return g20(g20(x)) }
fn g22(x[...]) -> [...] { return g21(g21(x)) }
fn g23(x[...]) -> [...] { return g22(g22(x)) }
model m(x[batch]) -> [batch] { return g23(x) }
# ---- instances
dim batch = 4, wide = 4
layer g0(x[batch, wide]) -> [batch, wide] { param w[wide] = ones; return x * w }
layer g1(x[batch, wide]) -> [batch, wide] { return b:g0(a:g0(x)) }
layer g2(x[batch, wide]) -> [batch, wide] { return b:g1(a:g1(x)) }
layer g3(x[batch, wide]) -> [batch, wide] { return b:g2(a:g2(x)) }
layer g4(x[batch, wide]) -> [batch, wide] { return b:g3(a:g3(x)) }
layer g5(x[batch, wide]) -> [batch, wide] { return b:g4(a:g4(x)) }
layer g6(x[batch, wide]) -> [batch, wide] { return b:g5(a:g5(x)) }
layer g7(x[batch, wide]) -> [batch, wide] { return b:g6(a:g6(x)) }
layer g8(x[batch, wide]) -> [batch, wide] { return b:g7(a:g7(x)) }
layer g9(x[batch, wide]) -> [batch, wide] { return b:g8(a:g8(x)) }
layer g10(x[batch, wide]) -> [batch, wide] { return b:g9(a:g9(x)) }
layer g11(x[batch, wide]) -> [batch, wide] { return b:g10(a:g10(x)) }
layer g12(x[batch, wide]) -> [batch, wide] { return b:g11(a:g11(x)) }
layer g13(x[batch, wide]) -> [batch, wide] { return b:g12(a:g12(x)) }
layer g14(x[batch, wide]) -> [batch, wide] { return b:g13(a:g13(x)) }
layer g15(x[batch, wide]) -> [batch, wide] { return b:g14(a:g14(x)) }
layer g16(x[batch, wide]) -> [batch, wide] { return b:g15(a:g15(x)) }
layer g17(x[batch, wide]) -> [batch, wide] { return b:g16(a:g16(x)) }
layer g18(x[batch, wide]) -> [batch, wide] { return b:g17(a:g17(x)) }
layer g19(x[batch, wide]) -> [batch, wide] { return b:g18(a:g18(x)) }
layer g20(x[batch, wide]) -> [batch, wide] { return b:g19(a:g19(x)) }
layer g21(x[batch, wide]) -> [batch, wide] { return b:g20(a:g20(x)) }
layer g22(x[batch, wide]) -> [batch, wide] { return b:g21(a:g21(x)) }
layer g23(x[batch, wide]) -> [batch, wide] { return b:g22(a:g22(x)) }
layer g24(x[batch, wide]) -> [batch, wide] { return b:g23(a:g23(x)) }
layer g25(x[batch, wide]) -> [batch, wide] { return b:g24(a:g24(x)) }
layer g26(x[batch, wide]) -> [batch, wide] { return b:g25(a:g25(x)) }
layer g27(x[batch, wide]) -> [batch, wide] { return b:g26(a:g26(x)) }
layer g28(x[batch, wide]) -> [batch, wide] { return b:g27(a:g27(x)) }
layer g29(x[batch, wide]) -> [batch, wide] { return b:g28(a:g28(x)) }
model m(x[batch, wide]) -> [batch, wide] { return g29(x) }
# ---- calls_of_calls
dim batch = 4, e = 4
layer g0(x[batch, e]) -> [batch, e] { return x * 1.5 }
layer g1(x[batch, e]) -> [batch, e] { return b:g0(a:g0(x)) }
layer g2(x[batch, e]) -> [batch, e] { return b:g1(a:g1(x)) }
layer g3(x[batch, e]) -> [batch, e] { return b:g2(a:g2(x)) }
layer g4(x[batch, e]) -> [batch, e] { return b:g3(a:g3(x)) }
layer g5(x[batch, e]) -> [batch, e] { return b:g4(a:g4(x)) }
layer g6(x[batch, e]) -> [batch, e] { return b:g5(a:g5(x)) }
layer g7(x[batch, e]) -> [batch, e] { return b:g6(a:g6(x)) }
layer g8(x[batch, e]) -> [batch, e] { return b:g7(a:g7(x)) }
layer g9(x[batch, e]) -> [batch, e] { return b:g8(a:g8(x)) }
layer g10(x[batch, e]) -> [batch, e] { return b:g9(a:g9(x)) }
layer g11(x[batch, e]) -> [batch, e] { return b:g10(a:g10(x)) }
layer g12(x[batch, e]) -> [batch, e] { return b:g11(a:g11(x)) }
layer g13(x[batch, e]) -> [batch, e] { return b:g12(a:g12(x)) }
layer g14(x[batch, e]) -> [batch, e] { return b:g13(a:g13(x)) }
layer g15(x[batch, e]) -> [batch, e] { return b:g14(a:g14(x)) }
layer g16(x[batch, e]) -> [batch, e] { return b:g15(a:g15(x)) }
layer g17(x[batch, e]) -> [batch, e] { return b:g16(a:g16(x)) }
layer g18(x[batch, e]) -> [batch, e] { return b:g17(a:g17(x)) }
layer g19(x[batch, e]) -> [batch, e] { return b:g18(a:g18(x)) }
layer g20(x[batch, e]) -> [batch, e] { return b:g19(a:g19(x)) }
layer g21(x[batch, e]) -> [batch, e] { return b:g20(a:g20(x)) }
layer g22(x[batch, e]) -> [batch, e] { return b:g21(a:g21(x)) }
layer g23(x[batch, e]) -> [batch, e] { return b:g22(a:g22(x)) }
layer g24(x[batch, e]) -> [batch, e] { return b:g23(a:g23(x)) }
layer g25(x[batch, e]) -> [batch, e] { return b:g24(a:g24(x)) }
layer g26(x[batch, e]) -> [batch, e] { return b:g25(a:g25(x)) }
layer g27(x[batch, e]) -> [batch, e] { return b:g26(a:g26(x)) }
layer g28(x[batch, e]) -> [batch, e] { return b:g27(a:g27(x)) }
layer g29(x[batch, e]) -> [batch, e] { return b:g28(a:g28(x)) }
layer g30(x[batch, e]) -> [batch, e] { return b:g29(a:g29(x)) }
model m(x[batch, e]) -> [batch, e] { return g30(x) }
# ---- losses
dim batch = 4, e = 4
layer g0(x[batch, e]) -> [batch, e] { return x * 1.5 }
layer g1(x[batch, e]) -> [batch, e] { return b:g0(a:g0(x)) }
layer g2(x[batch, e]) -> [batch, e] { return b:g1(a:g1(x)) }
layer g3(x[batch, e]) -> [batch, e] { return b:g2(a:g2(x)) }
layer g4(x[batch, e]) -> [batch, e] { return b:g3(a:g3(x)) }
layer g5(x[batch, e]) -> [batch, e] { return b:g4(a:g4(x)) }
layer g6(x[batch, e]) -> [batch, e] { return b:g5(a:g5(x)) }
layer g7(x[batch, e]) -> [batch, e] { return b:g6(a:g6(x)) }
layer g8(x[batch, e]) -> [batch, e] { return b:g7(a:g7(x)) }
layer g9(x[batch, e]) -> [batch, e] { return b:g8(a:g8(x)) }
layer g10(x[batch, e]) -> [batch, e] { return b:g9(a:g9(x)) }
layer g11(x[batch, e]) -> [batch, e] { return b:g10(a:g10(x)) }
layer g12(x[batch, e]) -> [batch, e] { return b:g11(a:g11(x)) }
layer g13(x[batch, e]) -> [batch, e] { return b:g12(a:g12(x)) }
layer g14(x[batch, e]) -> [batch, e] { return b:g13(a:g13(x)) }
layer g15(x[batch, e]) -> [batch, e] { return b:g14(a:g14(x)) }
layer g16(x[batch, e]) -> [batch, e] { return b:g15(a:g15(x)) }
layer g17(x[batch, e]) -> [batch, e] { return b:g16(a:g16(x)) }
model m(x[batch, e]) -> [batch, e] { param v[e], w[e] = ones; return g17(x * v * w) }
train {
  x[batch, e] = synthetic(0, 1)
  y = sum[batch, e](m(x))
  one = 1 * y
  two = 2 * y
  a = sgd(lr = 0.1, params = "v", loss = one)
  b = sgd(lr = 0.1, params = "w", loss = two)
  steps = 1
}
