/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers of training.dsl, and one of a user, over 20 steps in double precision: what PyTorch 2.15 makes of the same
 * gradients with torch.optim.AdamW and SGD, and with clip_grad_norm_; for lion what its authors' program does
 * (google/automl, lion_pytorch.py). */
#include "base/formula.h"
#include "base/intern.h"
#include "frontend/lower.h"
#include "ir/interp.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { N = 4, STEPS = 20 };

static const char program_text[] =
    "dim batch = 2, n = 4\n"
    "fn mine(p[...], g[...], lr) -> [...] {\n"
    "  state mean[...] = zeros\n"
    "  next = 0.5 * mean + g\n"
    "  mean = next\n"
    "  return p - lr * next\n"
    "}\n"
    "model m(x[batch, n]) -> [batch, n] {\n"
    "  param w[n] = ones\n"
    "  return x * w\n"
    "}\n"
    "train {\n"
    "  x[batch, n] = synthetic(-1, 1)\n"
    "  loss = sum[batch, n](m(x))\n"
    "  optimizer = %s\n"
    "  steps = 20\n"
    "}\n";

static DtProgram *lower(DtArena *arena, const char *optimizer)
{
    char path[] = "/tmp/optimizer-XXXXXX.dsl";
    const int fd = mkstemps(path, 4);
    cr_assert(fd >= 0);
    FILE *file = fdopen(fd, "w");
    fprintf(file, program_text, optimizer);
    fclose(file);
    DtDiags *diags = dt_diag_new(arena);
    DtProgram *program = dt_lower(arena, diags, &(DtLowerOptions){.path = path, .library = "lib"});
    if (!program)
        dt_diag_print(diags, stderr, false);
    unlink(path);
    cr_assert(program, "%s", optimizer);
    return program;
}

static double scalar(const DtTrainConfig *train, const char *name, int step)
{
    DtFormulaSetting settings[16];
    DtFormulaStep at = {.step = step, .updates = step + 1, .loss_scale = 1, .settings = settings};
    DtFormulaProblem problem;
    double value = NAN;
    for (uint32_t i = 0; i < train->settings.n; i++)
        settings[at.n_settings++] = (DtFormulaSetting){train->settings.at[i].name, train->settings.at[i].value};
    for (uint32_t i = 0; i < train->scalars.n; i++)
        if (strcmp(train->scalars.at[i].name, name) == 0)
            cr_assert(dt_formula_value(train->scalars.at[i].formula, dt_formula_step, &at, &value, &problem));
    return value;
}

/* One step of the rule: in[] holds parameter, gradient, norm, scalars, states. */
static void take_step(DtArena *arena, const DtTrainConfig *train, const DtUpdateRule *rule, int step, DtTensor **in)
{
    DtInterp interp = {.arena = arena};
    DtTensor *out[8];
    double square = 0;
    for (int i = 0; i < N; i++) {
        in[1]->at[i] = sin((step + 1) * (i + 1)) + 0.1 * i;
        square += in[1]->at[i] * in[1]->at[i];
    }
    in[2]->at[0] = sqrt(square);
    for (uint32_t i = 0; i < rule->n_scalars; i++)
        in[3 + i]->at[0] = scalar(train, rule->scalars[i], step);
    dt_interp_run(&interp, rule->func, in, out);
    in[0] = out[0];
    for (uint32_t i = 0; i < rule->func->writes.n; i++)
        in[rule->func->n_args + rule->func->writes.at[i]] = out[1 + i];
}

static void check(const char *optimizer, const double *want)
{
    DtArena *arena = dt_arena_new();
    const DtTrainConfig *train = lower(arena, optimizer)->train;
    cr_assert_eq(train->optimizer.rules.n, 1);
    const DtUpdateRule *rule = &train->optimizer.rules.at[0];
    DtTensor *in[16];
    for (uint32_t i = 0; i < rule->func->inputs.n; i++)
        in[i] = dt_interp_tensor(arena, rule->func->inputs.at[i]->type);
    for (int i = 0; i < N; i++)
        in[0]->at[i] = 0.5 * i - 0.7;
    for (int step = 0; step < STEPS; step++)
        take_step(arena, train, rule, step, in);
    for (int i = 0; i < N; i++)
        cr_expect(fabs(in[0]->at[i] - want[i]) < 1e-13, "%s: element %d is %.17g, not %.17g", optimizer, i,
                  in[0]->at[i], want[i]);
    dt_arena_free(arena);
}

Test(optimizers, twenty_steps)
{
    static const struct {
        const char *optimizer;
        double want[N];
    } cases[] = {
        {"adamw(lr = 0.1, decay = 0.1)",
         {-0.8778342483666037, -0.5279436867412549, -0.38641426071035184, 0.10144726022294517}},
        {"adamw(lr = 0.03, betas = (0.8, 0.95), eps = 1e-3, decay = 0)",
         {-0.7831736207803836, -0.3153866268408123, 0.09514308842997427, 0.6177932493341403}},
        {"sgd(lr = 0.1)", {-0.799822188441978, -0.49077208905430764, -0.09168222207092004, 0.27510328821658064}},
        {"sgd(lr = 0.1, momentum = 0.9, decay = 0.05)",
         {-0.8042238406474206, -1.3602547194986616, -1.9412878805269367, -2.5550291196647126}},
        {"sgd(lr = 0.1, momentum = 0.9, nesterov = true)",
         {-1.4544565021466718, -1.867771894076139, -2.2929949060684462, -2.7853821249841797}},
        {"sgd(lr = 0.1, momentum = 0.5, clip = 0.75)",
         {-0.7690014315730606, -0.3811022595974383, -0.03848315925570221, 0.4036737458339464}},
        {"lion(lr = 0.01, decay = 0.1)",
         {-0.7058548898736632, -0.21617627981686072, 0.27415576467732683, 0.7246093756117087}},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++)
        check(cases[i].optimizer, cases[i].want);
}

/* `mine` is SGD with momentum 1/2. */
Test(optimizers, a_users_own)
{
    double want[N], mean[N] = {0};
    for (int i = 0; i < N; i++)
        want[i] = 0.5 * i - 0.7;
    for (int t = 1; t <= STEPS; t++)
        for (int i = 0; i < N; i++) {
            mean[i] = 0.5 * mean[i] + sin(t * (i + 1)) + 0.1 * i;
            want[i] -= 0.2 / sqrt(t) * mean[i];
        }
    check("mine(lr = inverse_sqrt(0.2))", want);
}
