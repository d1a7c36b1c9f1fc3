/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers of training.dsl, and one of a user, over 20 steps in double precision: what PyTorch
 * 2.15 makes of the same gradients with torch.optim.AdamW, SGD, Adafactor and Muon (its iteration
 * in doubles, not in bf16; a matrix [m, n] here is [n, m] there), and with clip_grad_norm_; for
 * lion what its authors' program does (google/automl, lion_pytorch.py), for lamb algorithm 2 of its
 * paper. */
#include "base/formula.h"
#include "base/intern.h"
#include "frontend/lower.h"
#include "ir/interp.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 20 };

static const char program_text[] =
    "dim batch = 2, n = 4, m = 3, two = 2, half = 2\n"
    "fn mine(p[...], g[...], lr) -> [...] {\n"
    "  state mean[...] = zeros\n"
    "  next = 0.5 * mean + g\n"
    "  mean = next\n"
    "  return p - lr * next\n"
    "}\n"
    "layer hold[a, b](x[batch]) -> [batch] {\n"
    "  param w[a, b] = ones\n"
    "  return x * sum[a, b](w)\n"
    "}\n"
    "model net(x[batch]) -> [batch] {\n"
    "  %s\n"
    "}\n"
    "train {\n"
    "  x[batch] = synthetic(-1, 1)\n"
    "  loss = sum[batch](net(x))\n"
    "  optimizer = %s\n"
    "  steps = 20\n"
    "}\n";

/* Parameters of the model; the second axis of a matrix is a list of two here. */
static const char vector[] = "param w[n] = ones; return x * sum[n](w)",
                  wide[] = "return hold[m, (two, half)](x)", tall[] = "return hold[n, m](x)",
                  three[] = "param w[two, n, m] = ones; return x * sum[two, n, m](w)";

static DtProgram *lower(DtArena *arena, const char *optimizer, const char *model)
{
    char path[] = "/tmp/optimizer-XXXXXX.dsl";
    const int fd = mkstemps(path, 4);
    cr_assert(fd >= 0);
    FILE *file = fdopen(fd, "w");
    fprintf(file, program_text, model, optimizer);
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
        settings[at.n_settings++] = (DtFormulaSetting){train->settings.at[i].name,
                                                       train->settings.at[i].value};
    for (uint32_t i = 0; i < train->scalars.n; i++)
        if (strcmp(train->scalars.at[i].name, name) == 0)
            cr_assert(dt_formula_value(train->scalars.at[i].formula, dt_formula_step, &at, &value,
                                       &problem));
    return value;
}

/* One step of the rule. in[]: parameter, gradient, norm, scalars, states. */
static void take_step(DtArena *arena, const DtTrainConfig *train, const DtUpdateRule *rule,
                      int step, DtTensor **in)
{
    DtInterp interp = {.arena = arena};
    DtTensor *out[8];
    double square = 0;
    for (int i = 0; i < dt_type_elements(in[1]->type); i++) {
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

static void check(const char *optimizer, const char *model, const double *want)
{
    DtArena *arena = dt_arena_new();
    const DtTrainConfig *train = lower(arena, optimizer, model)->train;
    cr_assert_eq(train->optimizer.rules.n, 1);
    const DtUpdateRule *rule = &train->optimizer.rules.at[0];
    DtTensor *in[16];
    for (uint32_t i = 0; i < rule->func->inputs.n; i++)
        in[i] = dt_interp_tensor(arena, rule->func->inputs.at[i]->type);
    const int n = (int)dt_type_elements(in[0]->type);
    for (int i = 0; i < n; i++)
        in[0]->at[i] = 0.5 * i - 0.7;
    for (int step = 0; step < STEPS; step++)
        take_step(arena, train, rule, step, in);
    for (int i = 0; i < n; i++)
        cr_expect(fabs(in[0]->at[i] - want[i]) < 1e-13 * fmax(1, fabs(want[i])),
                  "%s: element %d is %.17g, not %.17g", optimizer, i, in[0]->at[i], want[i]);
    dt_arena_free(arena);
}

Test(optimizers, twenty_steps)
{
    static const struct {
        const char *optimizer, *model;
        double want[24];
    } cases[] = {
        {"adamw(lr = 0.1, decay = 0.1)", vector,
         {-0.8778342483666037, -0.5279436867412549, -0.38641426071035184, 0.10144726022294517}},
        {"adamw(lr = 0.03, betas = (0.8, 0.95), eps = 1e-3, decay = 0)", vector,
         {-0.7831736207803836, -0.3153866268408123, 0.09514308842997427, 0.6177932493341403}},
        {"sgd(lr = 0.1)", vector,
         {-0.799822188441978, -0.49077208905430764, -0.09168222207092004, 0.27510328821658064}},
        {"sgd(lr = 0.1, momentum = 0.9, decay = 0.05)", vector,
         {-0.8042238406474206, -1.3602547194986616, -1.9412878805269367, -2.5550291196647126}},
        {"sgd(lr = 0.1, momentum = 0.9, nesterov = true)", vector,
         {-1.4544565021466718, -1.867771894076139, -2.2929949060684462, -2.7853821249841797}},
        {"sgd(lr = 0.1, momentum = 0.5, clip = 0.75)", vector,
         {-0.7690014315730606, -0.3811022595974383, -0.03848315925570221, 0.4036737458339464}},
        {"lion(lr = 0.01, decay = 0.1)", vector,
         {-0.7058548898736632, -0.21617627981686072, 0.27415576467732683, 0.7246093756117087}},
        {"lamb(lr = 0.05)", vector,
         {-0.86285536561965515, -0.51397102659099936, -0.27012272961253636, 0.15743131183754733}},
        {"lamb(lr = 0.02, decay = 0.1, clip = 0.75)", wide,
         {-0.79075856581291115, -0.37284630312458078, -0.067072472166661096, 0.42899870926000194,
          0.85924657186904119, 1.5613209913137487, 1.3471102734304468, 1.7834635084780559,
          2.1843188731954171, 2.5855788588469535, 3.0083102788673748, 3.4007109256879433}},
        {"adafactor(lr = 0.1)", vector,
         {-0.74867265159992913, -0.34397673965026659, 0.044638941966398241, 0.53141864860137578}},
        {"adafactor(lr = 0.1, decay = 0.1)", wide,
         {-0.88827615357834766, -0.82858988244563003, -0.42701487649366582, -0.22616717591609084,
          -0.098647758772255498, 0.51208515189538495, -0.15531592908343314, 0.18048924527102084,
          0.59123707765257627, 0.72932065998943219, 1.3517341358394204, 1.6876137353734204}},
        {"adafactor(lr = 2, beta2_decay = -0.5)", three,
         {-19.796449755156871, -61.041350187730366, -43.387837296898077, -47.014697746623888,
          -92.010968711874, -201.24259824555645, -164.04585734124373, -153.45380869273754,
          -136.57762208885791, -150.34333259496037, -174.11354588670065, -195.68906895102145,
          -203.39745864212387, -183.36769246972625, -174.53229277137652, -170.15976451081517,
          -197.95920253220703, -199.67535092250492, -212.00847314528704, -170.54358815703492,
          -168.04694110603731, -187.46667710428449, -204.48035910041423, -196.32469444929154}},
        {"muon(lr = 0.1)", wide,
         {-0.30738019198666477, -0.32613156138298671, 0.19038857969271186, 0.083364533278322273,
          1.1615761568718692, 1.8150075406987629, 1.1318092403775863, 1.4067635594643624,
          1.8294299935367715, 2.2272111515635942, 2.9226379321669489, 3.5009987402057021}},
        {"muon(lr = 0.1, momentum = 0.8, nesterov = false, decay = 0)", tall,
         {-0.34529748640510605, -0.59943673641547757, 0.12009962948172211, 0.68190851674900121,
          0.85836150045520654, 1.873360212525095, 1.9154303870261626, 2.3308413086907134,
          2.6213148398887838, 3.0747062079539322, 3.6389212320553437, 4.3637618083693432}},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++)
        check(cases[i].optimizer, cases[i].model, cases[i].want);
}

/* The program's own optimizer `mine` is SGD with momentum 1/2. */
Test(optimizers, a_users_own)
{
    enum { N = 4 };
    double want[N], mean[N] = {0};
    for (int i = 0; i < N; i++)
        want[i] = 0.5 * i - 0.7;
    for (int t = 1; t <= STEPS; t++)
        for (int i = 0; i < N; i++) {
            mean[i] = 0.5 * mean[i] + sin(t * (i + 1)) + 0.1 * i;
            want[i] -= 0.2 / sqrt(t) * mean[i];
        }
    check("mine(lr = inverse_sqrt(0.2))", vector, want);
}
