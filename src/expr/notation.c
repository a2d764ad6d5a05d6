/*
 * Parses one line in Python's notation into a graph, by recursive descent:
 *
 *     line     compare {, compare}
 *     compare  sum [== != < <= > >= sum]
 *     sum      product {+ - product}
 *     product  factor {* / @ factor}
 *     factor   - factor  |  + factor  |  postfix [** factor]
 *     postfix  atom {.name  .name(arguments)  [subscripts]}
 *     atom     number  name  name(arguments)  (compare {, compare})  [compare {, compare}]
 */
#include "expr/notation.h"

#include "context.h"
#include "core/mode.h"

#include <ctype.h>
#include <locale.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The deepest nesting of brackets and signs. Nobody writes deeper ones, and they could overflow the
 * stack. */
enum { DEEPEST = 64 };

static bool compare(sf_parser *p, sf_term *result);

/* ------------------------------------------------------------------------------------------------------------
 * Errors
 * ---------------------------------------------------------------------------------------------------------- */

/* The part of the line around the caret that is shown, so that it fits a terminal. */
enum { BEFORE = 60, WIDE = 100 };

static void add_caret(const char *line, const char *at, char *text, size_t size)
{
        const char *from = at - line > WIDE - 20 ? at - BEFORE : line;
        while (((unsigned char)*from & 0xc0) == 0x80) /* do not begin inside a character */
                from++;
        size_t length = strnlen(from, WIDE);
        size_t used = strlen(text);
        int written = snprintf(text + used, size - used, "\n  %s%.*s\n  %s", from > line ? "..." : "", (int)length, from, from > line ? "   " : "");
        if (written < 0 || (size_t)written >= size - used)
                return;
        for (char *c = text + used + 1; *c; c++)
                if ((unsigned char)*c < ' ' && *c != '\n')
                        *c = ' ';
        used += (size_t)written;
        for (const char *c = from; c < at && used + 2 < size; c++)
                if (((unsigned char)*c & 0xc0) != 0x80)
                        text[used++] = ' ';
        text[used++] = '^';
        text[used] = 0;
}

bool sf_notation_fail(sf_parser *p, const char *at, const char *format, ...)
{
        char text[1024];
        va_list args;
        va_start(args, format);
        vsnprintf(text, 512, format, args);
        va_end(args);
        add_caret(p->text, at, text, sizeof text);
        p->status = sf_fail(p->ctx, SF_INVALID_ARGUMENT, "%s", text);
        return false;
}

sf_status sf_notation_point(const sf_context *ctx, const sf_graph *graph, int32_t node, sf_status status)
{
        char text[2048];
        if (!graph->line)
                return status;
        snprintf(text, sizeof text / 2, "%s", sf_last_error(ctx));
        add_caret(graph->line, graph->line + graph->node[node].column, text, sizeof text);
        return sf_fail(ctx, status, "%s", text);
}

void sf_notation_place(sf_parser *p, const char *at)
{
        while (p->placed < p->graph->nodes)
                p->graph->node[++p->placed].column = (size_t)(at - p->text);
}

bool sf_notation_node(sf_parser *p, const char *at, int32_t node, sf_term *result)
{
        sf_notation_place(p, at);
        *result = (sf_term){.kind = SF_TERM_NODE, .at = at, .node = node};
        if (node >= 0)
                return true;
        const sf_status status = sf_last_status();
        char text[1024];
        snprintf(text, 512, "%s", sf_last_error(p->ctx));
        if (status != SF_OUT_OF_MEMORY) /* that has nothing to do with the line */
                add_caret(p->text, at, text, sizeof text);
        p->status = sf_fail(p->ctx, status, "%s", text);
        return false;
}

/* ------------------------------------------------------------------------------------------------------------
 * Words
 * ---------------------------------------------------------------------------------------------------------- */
static void skip_space(sf_parser *p)
{
        while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')
                p->at++;
}

static bool next_is(sf_parser *p, const char *mark)
{
        skip_space(p);
        return !strncmp(p->at, mark, strlen(mark));
}

static bool take(sf_parser *p, const char *mark)
{
        if (!next_is(p, mark))
                return false;
        p->at += strlen(mark);
        return true;
}

static bool expect(sf_parser *p, const char *mark, const char *after)
{
        if (take(p, mark))
                return true;
        return sf_notation_fail(p, p->at, *p->at ? "a %s was expected here, %s" : "the line ends where a %s was expected, %s", mark, after);
}

static bool starts_name(char c)
{
        return isalpha((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static sf_name take_name(sf_parser *p)
{
        skip_space(p);
        sf_name name = {p->at, 0};
        while (starts_name(p->at[0]) || (name.length && isdigit((unsigned char)p->at[0]))) {
                p->at++;
                name.length++;
        }
        return name;
}

bool sf_notation_dtype(sf_name name, sf_dtype *dtype)
{
        static const struct {
                const char *name;
                sf_dtype dtype;
        } names[] = {
#define DTYPE(name, NAME, ctype, code, bits, kind) {#name, {code, bits, 1}},
#include "core/dtypes.def"
#undef DTYPE
                {"float16", {2, 16, 1}}, {"half", {2, 16, 1}}, {"bfloat16", {4, 16, 1}}, {"float32", {2, 32, 1}}, {"float", {2, 32, 1}},
                {"float64", {2, 64, 1}}, {"double", {2, 64, 1}}, {"int8", {0, 8, 1}}, {"int16", {0, 16, 1}}, {"int32", {0, 32, 1}}, {"int", {0, 32, 1}},
                {"int64", {0, 64, 1}}, {"long", {0, 64, 1}}, {"uint8", {1, 8, 1}}, {"uint16", {1, 16, 1}}, {"uint32", {1, 32, 1}}, {"uint64", {1, 64, 1}},
                {"bool_", {6, 8, 1}},
        };
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
                if (sf_name_is(name, names[i].name)) {
                        *dtype = names[i].dtype;
                        return true;
                }
        return false;
}

/* ------------------------------------------------------------------------------------------------------------
 * Atoms
 * ---------------------------------------------------------------------------------------------------------- */
static bool number(sf_parser *p, sf_term *result)
{
        const char *start = p->at;
        char digits[64];
        size_t length = 0;
        bool whole = true;
        while (isdigit((unsigned char)*p->at) || *p->at == '.' || *p->at == 'e' || *p->at == 'E' || *p->at == '_' ||
               ((*p->at == '-' || *p->at == '+') && p->at > start && (p->at[-1] == 'e' || p->at[-1] == 'E'))) {
                whole = whole && (isdigit((unsigned char)*p->at) || *p->at == '_');
                if (length + 1 == sizeof digits)
                        return sf_notation_fail(p, start, "this number has more than %zu digits", sizeof digits - 1);
                if (*p->at != '_')
                        digits[length++] = *p->at;
                p->at++;
        }
        digits[length] = 0;
        char *end;
        sf_scalar value;
        errno = 0;
        if (whole) {
                value = sf_uint(strtoull(digits, &end, 10));
                if (errno)
                        return sf_notation_fail(p, start,
                                                "this whole number does not fit 64 bits; with a "
                                                "point behind it, it is a real one");
                if (value.value.u <= INT64_MAX)
                        value = sf_int((int64_t)value.value.u);
        } else {
                /* strtod expects the decimal point of the locale. */
                char *point = strchr(digits, '.');
                if (point)
                        *point = *localeconv()->decimal_point;
                /* strtod also rounds in the mode that the caller has set */
                const sf_mode mode = sf_mode_enter();
                value = sf_real(strtod(digits, &end));
                sf_mode_leave(mode);
        }
        if (*end || !length)
                return sf_notation_fail(p, start, "this is not a number");
        return sf_notation_node(p, start, sf_expr_constant(p->graph, value), result);
}

/* Parses items up to `close`. *tuple is set if it is a tuple or list, not one expression in
 * parentheses. */
static bool items(sf_parser *p, const char *close, sf_term *result, bool *tuple)
{
        sf_term mine[SF_TUPLE_MAX];
        int32_t count = 0;
        *tuple = *close == ']';
        if (!take(p, close)) {
                do {
                        if (count && next_is(p, close))
                                break;
                        if (count == SF_TUPLE_MAX)
                                return sf_notation_fail(p, p->at, "more than %d items in one pair of brackets", SF_TUPLE_MAX);
                        if (!compare(p, &mine[count++]))
                                return false;
                        *tuple = *tuple || next_is(p, ",");
                } while (take(p, ","));
                if (!expect(p, close, "to close the bracket"))
                        return false;
        } else {
                *tuple = true;
        }
        if (!*tuple) {
                *result = mine[0];
                return true;
        }
        if (p->items + count > (int32_t)(sizeof p->item / sizeof p->item[0]))
                return sf_notation_fail(p, result->at, "too many items in brackets");
        *result = (sf_term){.kind = SF_TERM_TUPLE, .at = result->at, .count = count, .first = p->items};
        memcpy(p->item + p->items, mine, (size_t)count * sizeof *mine);
        p->items += count;
        return true;
}

/* Parses what follows "name(". */
static bool call(sf_parser *p, sf_name name, const sf_term *object, sf_term *result)
{
        sf_argument arguments[SF_CALL_MAX];
        int32_t count = 0, kept = p->items;
        if (object)
                arguments[count++] = (sf_argument){.term = *object};
        if (!take(p, ")")) {
                do {
                        if (next_is(p, ")"))
                                break;
                        if (count == SF_CALL_MAX)
                                return sf_notation_fail(p, p->at, "%.*s is given more than %d arguments", (int)name.length, name.at, SF_CALL_MAX);
                        sf_argument *a = &arguments[count++];
                        const char *back = p->at;
                        a->name = take_name(p);
                        if (!a->name.length || !next_is(p, "=") || next_is(p, "==")) {
                                p->at = back;
                                a->name.length = 0;
                        } else {
                                take(p, "=");
                        }
                        if (!compare(p, &a->term))
                                return false;
                } while (take(p, ","));
                if (!expect(p, ")", "to close the call"))
                        return false;
        }
        bool good = sf_notation_call(p, name, count, arguments, result);
        p->items = kept; /* the tuples were arguments; only the result may still be one */
        if (good && result->kind == SF_TERM_TUPLE) {
                memmove(p->item + kept, p->item + result->first, (size_t)result->count * sizeof *p->item);
                result->first = kept;
                p->items += result->count;
        }
        return good;
}

static bool word(sf_parser *p, sf_term *result)
{
        sf_name name = take_name(p);
        static const char *const modules[] = {"torch", "np", "numpy", "F", "nn", "functional", "jnp", "cupy", "special", "linalg", "math", "scanfold"};
        for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
                if (sf_name_is(name, modules[i]) && next_is(p, ".")) {
                        take(p, ".");
                        name = take_name(p);
                        i = (size_t)-1; /* again, for torch.nn.functional. */
                }
        if (!name.length)
                return sf_notation_fail(p, p->at, "a name was expected here");
        *result = (sf_term){.at = name.at};
        /* x.float() is a method; float(x) and bool(x) are casts too. */
        if (next_is(p, "("))
                return take(p, "("), call(p, name, NULL, result);
        if (sf_name_is(name, "None") || sf_name_is(name, "newaxis")) {
                result->kind = SF_TERM_NONE;
                return true;
        }
        if (sf_name_is(name, "True") || sf_name_is(name, "False")) {
                result->kind = SF_TERM_BOOL;
                result->yes = sf_name_is(name, "True");
                return true;
        }
        if (sf_notation_dtype(name, &result->dtype)) {
                result->kind = SF_TERM_DTYPE;
                return true;
        }
        if (sf_name_is(name, "inf") || sf_name_is(name, "nan"))
                return sf_notation_node(p, name.at, sf_expr_constant(p->graph, sf_real(strtod(sf_name_is(name, "inf") ? "inf" : "nan", NULL))), result);
        char text[64];
        if (name.length >= sizeof text)
                return sf_notation_fail(p, name.at, "this name has more than %zu letters", sizeof text - 1);
        memcpy(text, name.at, name.length);
        text[name.length] = 0;
        return sf_notation_node(p, name.at, sf_expr_input(p->graph, text), result);
}

static bool atom(sf_parser *p, sf_term *result)
{
        skip_space(p);
        result->at = p->at;
        char c = *p->at;
        if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)p->at[1])))
                return number(p, result);
        bool tuple;
        if (take(p, "("))
                return items(p, ")", result, &tuple);
        if (take(p, "["))
                return items(p, "]", result, &tuple);
        if (starts_name(c))
                return word(p, result);
        return sf_notation_fail(p, p->at, c ? "a name, a number or a bracket was expected here" : "the line ends where an expression was expected");
}

/* ------------------------------------------------------------------------------------------------------------
 * Subscripts
 * ---------------------------------------------------------------------------------------------------------- */
bool sf_notation_whole(const sf_parser *p, const sf_term *term, int64_t *value)
{
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): a reader that sets no term returns false, as sf_notation_fail does */
        if (term->kind != SF_TERM_NODE)
                return false;
        const sf_node *n = &p->graph->node[term->node];
        bool negative = n->kind == SF_NODE_APPLY && n->function == SF_NEG;
        if (negative)
                n = &p->graph->node[n->arg[0]];
        if (n->kind != SF_NODE_CONSTANT || n->value.kind != SF_SCALAR_INT)
                return false;
        *value = negative ? -n->value.value.i : n->value.value.i;
        return true;
}

/* Parses one of start, stop and step; leaves *value unchanged if a colon, comma or bracket
 * follows. */
static bool bound(sf_parser *p, int64_t *value)
{
        sf_term term;
        if (next_is(p, ":") || next_is(p, ",") || next_is(p, "]"))
                return true;
        if (!compare(p, &term))
                return false;
        if (term.kind == SF_TERM_NONE)
                return true;
        return sf_notation_whole(p, &term, value) || sf_notation_fail(p, term.at, "a whole number was expected here");
}

/* x[...]: applies the subscripts one after another. Axes are counted from the front, and after an
 * ellipsis from the back. */
static bool subscripts(sf_parser *p, sf_term *x)
{
        struct {
                const char *at;
                enum { SLICE, INDEX, NEW, REST } kind;
                int64_t start, stop, step;
        } sub[SF_TUPLE_MAX];
        int32_t count = 0, rest = -1;
        do {
                if (count && next_is(p, "]"))
                        break;
                if (count == SF_TUPLE_MAX)
                        return sf_notation_fail(p, p->at, "more than %d subscripts", SF_TUPLE_MAX);
                skip_space(p);
                sub[count].at = p->at;
                sub[count].kind = SLICE;
                sub[count].start = sub[count].stop = sub[count].step = SF_SLICE_END;
                const char *before = p->at;
                if (take(p, "...")) {
                        if (rest >= 0)
                                return sf_notation_fail(p, sub[count].at, "a second ... cannot say which axes it stands for");
                        sub[rest = count].kind = REST;
                } else {
                        if (!bound(p, &sub[count].start))
                                return false;
                        bool given = p->at != before;
                        if (take(p, ":")) {
                                if (!bound(p, &sub[count].stop) || (take(p, ":") && !bound(p, &sub[count].step)))
                                        return false;
                        } else if (given) {
                                sub[count].kind = sub[count].start == SF_SLICE_END ? NEW : INDEX;
                        } else {
                                return sf_notation_fail(p, p->at, "a subscript was expected here");
                        }
                }
                count++;
        } while (take(p, ","));
        if (!expect(p, "]", "to close the subscript"))
                return false;
        /* After an ellipsis, axes are counted from the end, the last subscript first; before it,
         * from the front. */
        int32_t from_end = -1, axis = 0, node = x->node, named = 0;
        const int32_t first = p->graph->nodes + 1;
        for (int32_t i = count - 1; rest >= 0 && i > rest; i--) {
                if (sub[i].kind == NEW)
                        node = sf_expr_unsqueeze(p->graph, node, from_end--);
                else if (sub[i].kind == INDEX)
                        node = sf_expr_select(p->graph, node, from_end, sub[i].start);
                else
                        node = sf_expr_slice(p->graph, node, from_end--, sub[i].start, sub[i].stop, sub[i].step);
                sf_notation_place(p, sub[i].at);
        }
        for (int32_t i = 0; i < (rest < 0 ? count : rest); i++) {
                if (sub[i].kind == NEW)
                        node = sf_expr_unsqueeze(p->graph, node, axis++);
                else if (sub[i].kind == INDEX)
                        node = sf_expr_select(p->graph, node, axis, sub[i].start);
                else
                        node = sf_expr_slice(p->graph, node, axis++, sub[i].start, sub[i].stop, sub[i].step);
                sf_notation_place(p, sub[i].at);
        }
        /* Subscripts before and after the ellipsis must not name the same axis. */
        for (int32_t i = 0; i < count; i++)
                named += sub[i].kind == SLICE || sub[i].kind == INDEX;
        if (first <= p->graph->nodes)
                p->graph->node[first].needs = named;
        return sf_notation_node(p, x->at, node, x);
}

/* ------------------------------------------------------------------------------------------------------------
 * Operators
 * ---------------------------------------------------------------------------------------------------------- */
static bool is_value(sf_parser *p, const sf_term *term)
{
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): as in sf_notation_whole */
        return term->kind == SF_TERM_NODE || sf_notation_fail(p, term->at, "this is no value to compute with");
}

static bool postfix(sf_parser *p, sf_term *result)
{
        if (!atom(p, result))
                return false;
        const char *start = result->at;
        while (1) {
                if (next_is(p, ".") && !next_is(p, "...")) {
                        take(p, ".");
                        sf_name name = take_name(p);
                        if (!is_value(p, result))
                                return false;
                        if (!name.length)
                                return sf_notation_fail(p, p->at, "a method's name was expected after the dot");
                        if (take(p, "(")) {
                                sf_term object = *result;
                                if (!call(p, name, &object, result))
                                        return false;
                        } else if (sf_name_is(name, "T")) {
                                if (!sf_notation_node(p, name.at, sf_expr_permute(p->graph, result->node, 0, NULL), result))
                                        return false;
                        } else if (sf_name_is(name, "mT")) {
                                if (!sf_notation_node(p, name.at, sf_expr_transpose(p->graph, result->node, -1, -2), result))
                                        return false;
                        } else {
                                return sf_notation_fail(p, name.at, "%.*s is no attribute of an expression; .T is one", (int)name.length, name.at);
                        }
                        result->at = start;
                } else if (take(p, "[")) {
                        if (!is_value(p, result) || !subscripts(p, result))
                                return false;
                } else {
                        return true;
                }
        }
}

static bool factor(sf_parser *p, sf_term *result)
{
        if (p->depth == DEEPEST)
                return sf_notation_fail(p, p->at, "more than %d brackets or signs within each other", DEEPEST);
        p->depth++;
        skip_space(p);
        const char *at = p->at;
        bool good;
        if (take(p, "-")) {
                good = factor(p, result) && is_value(p, result) && sf_notation_node(p, at, sf_expr_apply(p->graph, SF_NEG, result->node, 0, 0), result);
        } else if (take(p, "+")) {
                good = factor(p, result) && is_value(p, result);
        } else {
                good = postfix(p, result);
                skip_space(p);
                const char *power = p->at;
                sf_term exponent;
                int64_t two = 0;
                if (good && take(p, "**"))
                        good = is_value(p, result) && factor(p, &exponent) &&
                               ((sf_notation_whole(p, &exponent, &two) && two == 2) ||
                                sf_notation_fail(p, power, "only ** 2 is supported")) &&
                               sf_notation_node(p, result->at, sf_expr_apply(p->graph, SF_SQUARE, result->node, 0, 0), result);
        }
        p->depth--;
        return good;
}

static bool binary(sf_parser *p, const char *at, sf_function function, sf_term *a, const sf_term *b)
{
        const char *start = a->at;
        if (!is_value(p, a) || !is_value(p, b) || !sf_notation_node(p, at, sf_expr_apply(p->graph, function, a->node, b->node, 0), a))
                return false;
        a->at = start;
        return true;
}

static bool product(sf_parser *p, sf_term *result)
{
        if (!factor(p, result))
                return false;
        while (1) {
                sf_term right;
                skip_space(p);
                const char *at = p->at, *start = result->at;
                if (next_is(p, "//") || next_is(p, "%"))
                        return sf_notation_fail(p, at, "there is no %s here; / is division", *at == '%' ? "%" : "//");
                if (take(p, "@")) {
                        if (!factor(p, &right) || !is_value(p, result) || !is_value(p, &right) ||
                            !sf_notation_node(p, at, sf_expr_matmul(p->graph, result->node, right.node), result))
                                return false;
                        result->at = start;
                } else if (take(p, "*") || take(p, "/")) {
                        if (!factor(p, &right) || !binary(p, at, *at == '*' ? SF_MUL : SF_DIV, result, &right))
                                return false;
                } else {
                        return true;
                }
        }
}

static bool sum(sf_parser *p, sf_term *result)
{
        if (!product(p, result))
                return false;
        while (next_is(p, "+") || next_is(p, "-")) {
                sf_term right;
                const char *at = p->at++;
                if (!product(p, &right) || !binary(p, at, *at == '+' ? SF_ADD : SF_SUB, result, &right))
                        return false;
        }
        return true;
}

static bool compare(sf_parser *p, sf_term *result)
{
        static const struct {
                const char *mark;
                sf_function function;
        } marks[] = {{"==", SF_EQ}, {"!=", SF_NE}, {"<=", SF_LE}, {">=", SF_GE}, {"<", SF_LT}, {">", SF_GT}};
        if (!sum(p, result))
                return false;
        for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
                if (next_is(p, marks[i].mark)) {
                        sf_term right;
                        const char *at = p->at;
                        take(p, marks[i].mark);
                        if (!sum(p, &right) || !binary(p, at, marks[i].function, result, &right))
                                return false;
                        for (size_t k = 0; k < sizeof marks / sizeof marks[0]; k++)
                                if (next_is(p, marks[k].mark))
                                        return sf_notation_fail(p, p->at, "comparisons cannot be chained; multiply two of them");
                        return true;
                }
        return true;
}

/* ------------------------------------------------------------------------------------------------------------
 * A line
 * ---------------------------------------------------------------------------------------------------------- */
static bool line(sf_parser *p)
{
        sf_term term;
        do {
                skip_space(p);
                if (!*p->at && sf_graph_outputs(p->graph))
                        break;
                if (!compare(p, &term))
                        return false;
                /* (a, b) is two outputs as well. */
                int32_t count = term.kind == SF_TERM_TUPLE ? term.count : 1;
                for (int32_t i = 0; i < count; i++) {
                        const sf_term *one = term.kind == SF_TERM_TUPLE ? &p->item[term.first + i] : &term;
                        sf_term ignored;
                        if (!is_value(p, one) || !sf_notation_node(p, one->at, sf_expr_output(p->graph, one->node), &ignored))
                                return false;
                }
        } while (take(p, ","));
        skip_space(p);
        if (!*p->at)
                return sf_graph_outputs(p->graph) || sf_notation_fail(p, p->at, "there is nothing to compute here");
        return sf_notation_fail(p, p->at, *p->at == '=' ? "= is no operator; an expression is written without a name for its result"
                                          : *p->at == ')' || *p->at == ']' ? "this bracket closes nothing"
                                                                           : "an operator was expected here");
}

sf_status sf_graph_parse(sf_context *given, const char *text, sf_graph **graph)
{
        sf_context *ctx;
        SF_TRY(sf_context_resolve(given, &ctx));
        if (!text || !graph)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "%s is NULL", !text ? "text" : "graph");
        sf_parser *p = malloc(sizeof *p);
        if (!p)
                return sf_fail(ctx, SF_OUT_OF_MEMORY, "no memory to read an expression with");
        memset(p, 0, sizeof *p);
        p->ctx = ctx;
        p->text = p->at = text;
        sf_status status = sf_graph_create(ctx, &p->graph);
        if (status == SF_OK && !line(p)) {
                sf_graph_destroy(p->graph);
                status = p->status;
        }
        if (status == SF_OK && !(p->graph->line = strdup(text))) {
                sf_graph_destroy(p->graph);
                status = sf_fail(ctx, SF_OUT_OF_MEMORY, "no memory to keep an expression's line in");
        }
        if (status == SF_OK)
                *graph = p->graph;
        free(p);
        return status;
}
