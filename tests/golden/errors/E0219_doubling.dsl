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
