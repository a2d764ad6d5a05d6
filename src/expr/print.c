/* Prints a node in the notation that the parser reads. */
#include "core/choose.h"
#include "core/value.h"
#include "expr/ir.h"
#include "expr/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The precedence of operators, lowest first, as in Python. */
enum { COMPARES = 1, ADDS, MULTIPLIES, NEGATES, ATOM };

typedef struct printer {
        const sf_ir *ir;
        sf_text *text;
        const int32_t *label; /* NULL, or by node: 0, or the number k to show it as tk */
        int32_t root;         /* shown in full, even if it has a label */
        /* A shared node is printed at each of its uses, so the text can become very long:
         * printing stops at this length. */
        size_t limit;
} printer;

static void print(printer *p, int32_t id, int tightness);

/* Prints the fewest digits that read back as the same number; whole numbers without an exponent. */
static void print_real(sf_text *t, double v, bool is_double)
{
        char text[40];
        if (v == floor(v) && fabs(v) < 1e15) {
                sf_text_add(t, "%.0f", v);
                return;
        }
        for (int digits = 1; digits <= 17; digits++) {
                snprintf(text, sizeof text, "%.*g", digits, v);
                if (is_double ? strtod(text, NULL) == v : strtof(text, NULL) == (float)v)
                        break;
        }
        for (char *c = text; *c; c++) /* the locale may have a decimal comma */
                *c = *c == ',' ? '.' : *c;
        sf_text_add(t, "%s", text);
}

static void print_value(sf_text *t, sf_dt dt, sf_value v)
{
        if (dt == SF_DT_F64)
                print_real(t, v.f64, true);
        else if (sf_dtypes[dt].kind == SF_KIND_REAL)
                print_real(t, v.f32, false);
        else if (dt == SF_DT_BOOL)
                sf_text_add(t, v.u64 ? "True" : "False");
        else if (sf_dtypes[dt].kind == SF_KIND_SIGNED)
                sf_text_add(t, "%" PRId64, (int64_t)v.u64);
        else
                sf_text_add(t, "%" PRIu64, v.u64);
}

/* "1", "(0, 1)" or "()". */
static void print_axes(sf_text *t, uint64_t axes)
{
        bool several = !axes || (axes & (axes - 1)) != 0, first = true;
        sf_text_add(t, several ? "(" : "");
        for (int d = 0; d < 64; d++)
                if (axes >> d & 1) {
                        sf_text_add(t, first ? "%d" : ", %d", d);
                        first = false;
                }
        sf_text_add(t, several ? ")" : "");
}

static void print_shape(sf_text *t, int32_t ndim, const int64_t *shape)
{
        sf_text_add(t, "(");
        for (int32_t d = 0; d < ndim; d++)
                sf_text_add(t, d ? ", %" PRId64 : "%" PRId64, shape[d]);
        sf_text_add(t, ndim == 1 ? ",)" : ")");
}

static void print_map(printer *p, const sf_ir_node *n, int tightness)
{
        static const struct {
                const char *text;
                int tightness;
        } infix[SF_CODE_COUNT] = {
                [SF_CODE_ADD] = {" + ", ADDS}, [SF_CODE_SUB] = {" - ", ADDS}, [SF_CODE_MUL] = {" * ", MULTIPLIES}, [SF_CODE_DIV] = {" / ", MULTIPLIES},
                [SF_CODE_EQ] = {" == ", COMPARES}, [SF_CODE_NE] = {" != ", COMPARES}, [SF_CODE_LT] = {" < ", COMPARES}, [SF_CODE_LE] = {" <= ", COMPARES},
                [SF_CODE_GT] = {" > ", COMPARES}, [SF_CODE_GE] = {" >= ", COMPARES},
        };
        static const char *const names[SF_CODE_COUNT] = {
#define CODE(name, NAME, arguments, kind) [SF_CODE_##NAME] = #name,
#include "core/codes.def"
#undef CODE
        };
        int mine = n->code == SF_CODE_NEG ? NEGATES : infix[n->code].tightness;
        if (mine && mine < tightness)
                sf_text_add(p->text, "(");
        if (n->code == SF_CODE_NEG) {
                sf_text_add(p->text, "-");
                print(p, n->arg[0], NEGATES);
        } else if (mine) {
                print(p, n->arg[0], mine == COMPARES ? ADDS : mine);
                sf_text_add(p->text, "%s", infix[n->code].text);
                print(p, n->arg[1], mine + 1);
        } else if (n->code == SF_CODE_CAST) {
                print(p, n->arg[0], ATOM);
                sf_text_add(p->text, ".astype(%s)", sf_dtypes[n->dt].name);
        } else {
                sf_text_add(p->text, "%s(", names[n->code]);
                for (int i = 0; i < 3 && n->arg[i]; i++) {
                        sf_text_add(p->text, i ? ", " : "");
                        print(p, n->arg[i], 0);
                }
                sf_text_add(p->text, ")");
        }
        if (mine && mine < tightness)
                sf_text_add(p->text, ")");
}

/* The name of a scan or fold in the notation. */
static const char *reduce_name(const sf_ir_node *n)
{
        static const struct {
                const char *fold, *scan;
        } names[] = {
                [SF_SUM] = {"sum", "cumsum"}, [SF_PROD] = {"prod", "cumprod"}, [SF_MAX] = {"max", "cummax"}, [SF_MIN] = {"min", "cummin"},
                [SF_ARGMAX] = {"argmax", "cumargmax_first"}, [SF_ARGMIN] = {"argmin", "cumargmin_first"},
                [SF_LAST_ARGMAX] = {"argmax_last", "cumargmax"}, [SF_LAST_ARGMIN] = {"argmin_last", "cumargmin"},
                [SF_LOGSUMEXP] = {"logsumexp", "logcumsumexp"}, [SF_RECURRENCE] = {"", "linear_recurrence"},
        };
        return n->kind == SF_IR_FOLD ? names[n->op].fold : names[n->op].scan;
}

static void print_reduce(printer *p, const sf_ir_node *n, bool keepdim)
{
        const sf_ir_node *x = sf_ir_at(p->ir, n->arg[0]);
        const bool fold = n->kind == SF_IR_FOLD, two = sf_op_is(n->op, SF_TWO);
        uint64_t every = x->ndim == 64 ? UINT64_MAX : ((uint64_t)1 << x->ndim) - 1;
        /* In the ir, a mean divides by the number of all elements, masked out or not; mean(x,
         * mask=m) in the notation divides by the number of those that count. */
        const bool mean = n->mean && !n->arg[1];
        sf_text_add(p->text, "%s(", mean ? "mean" : reduce_name(n));
        if (two) { /* a comes before b, as in h = a h + b */
                print(p, n->arg[1], 0);
                sf_text_add(p->text, ", ");
        }
        print(p, n->arg[0], 0);
        if (n->axes ? !fold || n->axes != every : fold && x->ndim) {
                sf_text_add(p->text, ", ");
                print_axes(p->text, n->axes);
        }
        if (keepdim && n->axes)
                sf_text_add(p->text, ", keepdim=True");
        if (n->reverse)
                sf_text_add(p->text, ", reverse=True");
        if (n->exclusive)
                sf_text_add(p->text, ", exclusive=True");
        if (n->arg[1] && !two) {
                sf_text_add(p->text, ", mask=");
                print(p, n->arg[1], 0);
        }
        if (n->index)
                sf_text_add(p->text, ", offsets=%s", p->ir->name[n->index - 1]);
        if (n->has_initial) {
                sf_text_add(p->text, ", initial=");
                print_value(p->text, n->acc, n->value);
        }
        if (n->dt != sf_usual_result(n->op, x->dt))
                sf_text_add(p->text, ", dtype=%s", sf_dtypes[n->dt].name);
        if (n->acc == SF_DT_F64 && n->dt != SF_DT_F64 && x->dt != SF_DT_F64 && !(two && sf_ir_at(p->ir, n->arg[1])->dt == SF_DT_F64))
                sf_text_add(p->text, ", acc=f64");
        sf_text_add(p->text, ")");
        if (n->mean && !mean)
                sf_text_add(p->text, " / %" PRId64, sf_ir_length(x, n->axes));
}

static void print_slice(printer *p, const sf_ir_node *n)
{
        int64_t length = n->shape[n->index], all = sf_ir_at(p->ir, n->arg[0])->shape[n->index], stop = n->start + (length - 1) * n->step + (n->step < 0 ? -1 : 1);
        print(p, n->arg[0], ATOM);
        sf_text_add(p->text, "[");
        for (int32_t d = 0; d < n->index; d++)
                sf_text_add(p->text, ":, ");
        if (!length) {
                sf_text_add(p->text, "0:0]");
                return;
        }
        if (n->start)
                sf_text_add(p->text, "%" PRId64, n->start);
        sf_text_add(p->text, ":");
        if (n->step > 0 ? stop < all : stop >= 0)
                sf_text_add(p->text, "%" PRId64, stop);
        if (n->step != 1)
                sf_text_add(p->text, ":%" PRId64, n->step);
        sf_text_add(p->text, "]");
}

static bool reverses(const sf_ir_node *n)
{
        for (int32_t d = 0; d < n->ndim; d++)
                if (n->list[d] != n->ndim - 1 - d)
                        return false;
        return true;
}

static void print_view(printer *p, const sf_ir_node *n)
{
        const sf_ir_node *x = sf_ir_at(p->ir, n->arg[0]);
        if (n->kind == SF_IR_SQUEEZE && x->kind == SF_IR_FOLD && !(x->axes & ~n->axes) && !(p->label && p->label[n->arg[0]])) {
                sf_ir_node fold = *x;
                /* the additional axes have length 1: folding them changes nothing */
                fold.axes = n->axes;
                print_reduce(p, &fold, false);
                return;
        }
        if (n->kind == SF_IR_PERMUTE && reverses(n)) {
                print(p, n->arg[0], ATOM);
                sf_text_add(p->text, ".T");
                return;
        }
        sf_text_add(p->text, "%s(",
                    n->kind == SF_IR_FLIP        ? "flip"
                    : n->kind == SF_IR_PERMUTE   ? "permute"
                    : n->kind == SF_IR_SQUEEZE   ? "squeeze"
                    : n->kind == SF_IR_UNSQUEEZE ? "unsqueeze"
                                                 : "broadcast_to");
        print(p, n->arg[0], 0);
        sf_text_add(p->text, ", ");
        if (n->kind == SF_IR_BROADCAST) {
                print_shape(p->text, n->ndim, n->shape);
        } else if (n->kind == SF_IR_PERMUTE) {
                for (int32_t d = 0; d < n->ndim; d++)
                        sf_text_add(p->text, d ? ", %d" : "(%d", (int)n->list[d]);
                sf_text_add(p->text, ")");
        } else {
                print_axes(p->text, n->axes);
        }
        sf_text_add(p->text, ")");
}

static void print_spread(printer *p, const sf_ir_node *n)
{
        const int axis = __builtin_ctzll(n->axes);
        sf_text_add(p->text, "spread(");
        print(p, n->arg[0], 0);
        sf_text_add(p->text, ", %d, %" PRId64 ", offsets=%s)", axis, n->shape[axis], p->ir->name[n->index - 1]);
}

static void print(printer *p, int32_t id, int tightness)
{
        const sf_ir_node *n = sf_ir_at(p->ir, id);
        if (p->text->at >= p->limit)
                return;
        if (p->label && p->label[id] && id != p->root) {
                sf_text_add(p->text, "t%d", (int)p->label[id]);
                return;
        }
        switch (n->kind) {
        case SF_IR_INPUT: sf_text_add(p->text, "%s", p->ir->name[n->index]); return;
        case SF_IR_CONSTANT: print_value(p->text, n->dt, n->value); return;
        case SF_IR_MAP: print_map(p, n, tightness); return;
        case SF_IR_SLICE: print_slice(p, n); return;
        case SF_IR_CONCAT:
                sf_text_add(p->text, "concat([");
                for (int32_t i = 0; i < n->nlist; i++) {
                        sf_text_add(p->text, i ? ", " : "");
                        print(p, n->list[i], 0);
                }
                sf_text_add(p->text, "], %d)", (int)n->index);
                return;
        case SF_IR_SCAN:
        case SF_IR_FOLD: print_reduce(p, n, n->kind == SF_IR_FOLD && !n->index); return;
        case SF_IR_SPREAD:
                if (n->start)
                        print_spread(p, n);
                else
                        print(p, n->arg[0], tightness);
                return;
        case SF_IR_MATMUL:
                sf_text_add(p->text, MULTIPLIES < tightness ? "(" : "");
                print(p, n->arg[0], MULTIPLIES);
                sf_text_add(p->text, " @ ");
                print(p, n->arg[1], MULTIPLIES + 1);
                sf_text_add(p->text, MULTIPLIES < tightness ? ")" : "");
                return;
        default: print_view(p, n); return;
        }
}

size_t sf_ir_print_labelled(const sf_ir *ir, int32_t node, const int32_t *label, char *text, size_t size)
{
        sf_text t = {text, size, 0};
        printer p = {ir, &t, label, node, size};
        print(&p, node, 0);
        return t.at;
}

size_t sf_ir_print(const sf_ir *ir, int32_t node, char *text, size_t size)
{
        return sf_ir_print_labelled(ir, node, NULL, text, size);
}
