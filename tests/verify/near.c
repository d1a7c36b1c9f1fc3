/* SPDX-License-Identifier: Apache-2.0 */
#include "near.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

uint32_t near_dice(Near *n, uint32_t sides)
{
    n->random = n->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(n->random >> 33) % sides;
}

/* Returns a number between 10^-most and 10^-least, or its negative. */
static double tiny(Near *n, uint32_t least, uint32_t most)
{
    return (near_dice(n, 2) ? 1 : -1) * pow(10, -(double)(least + near_dice(n, most - least + 1)));
}

uint32_t near_literal(Near *n, double x)
{
    dt_text_printf(&n->text, "  %%%u = const() : f32[] number=%.17g @1:1-2\n", n->next, x);
    return n->next++;
}

uint32_t near_constant(Near *n, double x)
{
    return near_literal(n, n->constant-- == 0 ? x * (1 + tiny(n, 3, 12)) : x);
}

uint32_t near_unary(Near *n, const char *kind, uint32_t x)
{
    dt_text_printf(&n->text, "  %%%u = %s(%%%u) : %s @1:1-2\n", n->next, kind, x, n->type);
    return n->next++;
}

uint32_t near_binary(Near *n, const char *kind, uint32_t x, uint32_t y)
{
    const bool turned = (strcmp(kind, "add") == 0 || strcmp(kind, "mul") == 0) && near_dice(n, 2);
    dt_text_printf(&n->text, "  %%%u = %s(%%%u, %%%u) : %s @1:1-2\n", n->next, kind, turned ? y : x,
                   turned ? x : y, n->type);
    return n->next++;
}

uint32_t near_below(Near *n, uint32_t x, double number, uint32_t below, uint32_t y)
{
    const uint32_t c = near_literal(n, number);
    dt_text_printf(&n->text, "  %%%u = lt(%%%u, %%%u) : bool%s @1:1-2\n", n->next, x, c,
                   strchr(n->type, '['));
    dt_text_printf(&n->text, "  %%%u = where(%%%u, %%%u, %%%u) : %s @1:1-2\n", n->next + 1, n->next,
                   below, y, n->type);
    n->next += 2;
    return n->next - 1;
}

uint32_t near_spoiled(Near *n, uint32_t x, uint32_t y)
{
    const double far = pow(10, near_dice(n, 35));
    switch (n->fault) {
    case 1: return near_binary(n, "max", y, near_literal(n, -far));
    case 2:
        y = near_unary(n, "tanh", near_binary(n, "div", y, near_literal(n, far)));
        return near_binary(n, "mul", y, near_literal(n, far));
    case 3: return near_binary(n, "add", y, near_literal(n, tiny(n, 1, 35)));
    case 4:
        return near_binary(n, "add", y, near_binary(n, "mul", x, near_literal(n, tiny(n, 1, 35))));
    case 5: return near_below(n, x, -far, near_literal(n, -far), y);
    case 6: return near_below(n, x, tiny(n, 3, 35), near_literal(n, 0), y);
    case 7:
        x = near_unary(n, "tanh", near_binary(n, "mul", y, near_literal(n, far)));
        return near_binary(n, "add", y, near_binary(n, "mul", x, near_literal(n, tiny(n, 1, 35))));
    case 8:
        x = near_binary(n, "add", x, near_literal(n, tiny(n, 3, 35)));
        return near_below(n, x, 0, near_literal(n, 0), y);
    default: return y;
    }
}
