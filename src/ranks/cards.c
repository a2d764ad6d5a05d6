/* What each rank asks for, as bytes that are exchanged and compared. The outcome depends on the
 * cards alone, so it is the same on every rank. */
#include "backend.h"
#include "context.h"
#include "core/choose.h"
#include "core/order.h"
#include "ranks/ranks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------
 * Cards
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct card {
        char magic[4];
        int32_t version, status;
        int32_t op, axis, ndim, flags, initial_kind;
        uint8_t in, out, acc, a, placed, reserved[3];
        uint64_t initial, shape; /* shape: a hash of the lengths of the other axes */
        int64_t count, first;
        char text[184]; /* the error message, or the shape without the axis */
} card;

_Static_assert(sizeof(card) == sizeof(sf_shard_card), "cards have a size of their own");

static const char magic[4] = {'s', 'f', 'r', '1'};

sf_status sf_ranks_request(sf_context *ctx, const sf_tensor *x, const sf_tensor *out, const sf_shard_options *options, sf_shard_options *o,
                              sf_request *r, sf_prepared *p, int32_t *axis)
{
        const sf_shard_options usual = SF_SHARD_OPTIONS_INIT;
        *o = usual;
        if (options)
                SF_TRY(sf_options_read(ctx, "sf_shard_options", options, o, sizeof *o, SF_RESERVED_SHARD));
        if ((o->op == SF_RECURRENCE) != (o->a != NULL))
                return sf_fail(ctx, SF_INVALID_ARGUMENT, o->a ? "options->a is given, which only SF_RECURRENCE has; it must be NULL"
                                                              : "options->a is NULL; of SF_RECURRENCE it must be a tensor that broadcasts to x");
        if (o->a && o->fold)
                return sf_fail(ctx, SF_UNSUPPORTED, "a recurrence is a scan; options->fold must be 0");
        SF_TRY(sf_view_init(ctx, "x", x, &p->x));
        if (!p->x.ndim)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "x has no dimensions, so none that could be sharded; it must have one at least");
        *r = (sf_request){.x = x, .out = out, .mask = o->mask, .a = o->a, .op = o->op, .fold = o->fold != 0, .keepdim = o->keepdim != 0,
                          .reverse = o->reverse != 0, .exclusive = o->exclusive && !o->fold, .skip_nan = o->skip_nan != 0, .part = true,
                          .initial = o->initial, .accumulator = o->accumulator, .stream = o->stream};
        SF_TRY(sf_read_axis(ctx, o->axis, p->x.ndim, &r->axes));
        *axis = sf_order_log2(r->axes);
        if (o->placed && o->first < 0)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "options->first is %" PRId64 "; an index of the whole axis must be 0 or more", o->first);
        return sf_request_prepare(ctx, r, p);
}

static uint64_t shape_number(const sf_view *x, int32_t axis)
{
        uint64_t h = 1469598103934665603u;
        for (int32_t d = 0; d < x->ndim; d++)
                h = (h ^ (d == axis ? UINT64_MAX : (uint64_t)x->shape[d])) * 1099511628211u;
        return h;
}

/* "(2, *, 3)": the lengths that must be the same on all ranks. */
static void shape_text(const sf_view *x, int32_t axis, char *text, size_t size)
{
        size_t length = 0;
        for (int32_t d = 0; d < x->ndim && length + 24 < size; d++) {
                length += (size_t)snprintf(text + length, size - length, "%s", d ? ", " : "(");
                if (d == axis)
                        length += (size_t)snprintf(text + length, size - length, "*");
                else
                        length += (size_t)snprintf(text + length, size - length, "%" PRId64, x->shape[d]);
        }
        snprintf(text + length, size - length, ")");
}

static void fill_card(const sf_shard_options *o, const sf_request *r, const sf_prepared *p, int32_t axis, card *c)
{
        c->op = (int32_t)o->op;
        c->axis = axis;
        c->ndim = p->x.ndim;
        c->flags = r->fold | r->keepdim << 1 | r->reverse << 2 | r->exclusive << 3 | r->skip_nan << 4;
        c->in = (uint8_t)p->x.dt;
        c->out = (uint8_t)p->out.dt;
        c->acc = (uint8_t)p->step.acc;
        c->a = (uint8_t)(r->a ? p->a.dt : SF_DT_COUNT);
        c->placed = o->placed != 0;
        c->initial_kind = o->initial.kind;
        c->initial = o->initial.kind ? o->initial.value.u : 0;
        c->shape = shape_number(&p->x, axis);
        c->count = p->x.shape[axis];
        c->first = o->placed ? o->first : 0;
        shape_text(&p->x, axis, c->text, sizeof c->text);
}

static card card_empty(sf_status status)
{
        card c;
        memset(&c, 0, sizeof c);
        memcpy(c.magic, magic, sizeof magic);
        c.version = SF_VERSION;
        c.status = (int32_t)status;
        return c;
}

void sf_shard_card_fail(sf_status status, const char *sentence, sf_shard_card *made)
{
        card c = card_empty(status == SF_OK ? SF_INVALID_ARGUMENT : status);
        snprintf(c.text, sizeof c.text, "%s", sentence ? sentence : "");
        memcpy(made, &c, sizeof c);
}

void sf_shard_card_make(sf_context *given, const sf_tensor *x, const sf_tensor *out, const sf_shard_options *options, sf_shard_card *made)
{
        sf_context *ctx = NULL;
        sf_shard_options o;
        sf_request r;
        sf_prepared p;
        int32_t axis;
        sf_status status = sf_context_resolve(given, &ctx);
        if (status == SF_OK)
                status = sf_ranks_request(ctx, x, out, options, &o, &r, &p, &axis);
        if (status != SF_OK) {
                sf_shard_card_fail(status, sf_last_error(ctx), made);
                return;
        }
        card c = card_empty(SF_OK);
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): sf_ranks_request sets axis before it returns SF_OK */
        fill_card(&o, &r, &p, axis, &c);
        memcpy(made, &c, sizeof c);
}

/* ------------------------------------------------------------------------------------------------------------
 * Cards compared
 * ---------------------------------------------------------------------------------------------------------- */
static card card_of(const sf_shard_card *cards, int32_t rank)
{
        card c;
        memcpy(&c, &cards[rank], sizeof c);
        c.text[sizeof c.text - 1] = 0;
        return c;
}

static const char *dt_name(uint8_t dt)
{
        return dt < SF_DT_COUNT ? sf_dtypes[dt].name : "none";
}

static sf_status differ(const sf_context *ctx, int32_t rank, const char *what, const char *its, const char *first)
{
        return sf_fail(ctx, SF_INVALID_ARGUMENT, "rank %d has %s %s, and rank 0 has %s; all ranks must have the same", (int)rank, what, its, first);
}

static const char *number_text(int64_t v, char text[32])
{
        snprintf(text, 32, "%" PRId64, v);
        return text;
}

static sf_status compare(const sf_context *ctx, int32_t rank, const card *c, const card *first)
{
        static const char *const flags[] = {"fold", "keepdim", "reverse", "exclusive", "skip_nan"};
        char its[32], other[32];
        if (c->op != first->op)
                return differ(ctx, rank, "op", sf_op_name((sf_op)c->op), sf_op_name((sf_op)first->op));
        if (c->in != first->in)
                return differ(ctx, rank, "an x of dtype", dt_name(c->in), dt_name(first->in));
        if (c->out != first->out)
                return differ(ctx, rank, "an out of dtype", dt_name(c->out), dt_name(first->out));
        if (c->a != first->a)
                return differ(ctx, rank, "an a of dtype", dt_name(c->a), dt_name(first->a));
        if (c->acc != first->acc)
                return differ(ctx, rank, "accumulator", dt_name(c->acc), dt_name(first->acc));
        if (c->axis != first->axis || c->ndim != first->ndim)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "rank %d has axis %d of %d, and rank 0 has axis %d of %d; all ranks must have the same", (int)rank,
                               (int)c->axis, (int)c->ndim, (int)first->axis, (int)first->ndim);
        for (int32_t i = 0; i < (int32_t)(sizeof flags / sizeof *flags); i++)
                if ((c->flags ^ first->flags) >> i & 1)
                        return differ(ctx, rank, flags[i], number_text(c->flags >> i & 1, its), number_text(first->flags >> i & 1, other));
        if (c->initial_kind != first->initial_kind || c->initial != first->initial)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "rank %d has another initial value than rank 0; all ranks must have the same", (int)rank);
        if (c->shape != first->shape)
                return differ(ctx, rank, "shape", c->text, first->text);
        if (c->placed != first->placed)
                return differ(ctx, rank, "placed", number_text(c->placed, its), number_text(first->placed, other));
        return SF_OK;
}

sf_status sf_ranks_compare(const sf_context *ctx, int32_t ranks, const sf_shard_card *cards)
{
        for (int32_t i = 0; i < ranks; i++) {
                const card c = card_of(cards, i);
                if (memcmp(c.magic, magic, sizeof magic) || c.version != SF_VERSION)
                        return sf_fail(ctx, SF_INVALID_ARGUMENT, "the card of rank %d is not one that version %s of the library makes", (int)i, sf_version_string());
                if (c.status != SF_OK)
                        return sf_fail(ctx, (sf_status)c.status, "rank %d: %s", (int)i, c.text);
        }
        const card first = card_of(cards, 0);
        for (int32_t i = 1; i < ranks; i++) {
                const card c = card_of(cards, i);
                SF_TRY(compare(ctx, i, &c, &first));
        }
        return SF_OK;
}

/* Orders shards by their first index; an empty shard comes before the one that begins at the same
 * index. */
static int before(const void *a, const void *b)
{
        const sf_ranks_part *x = a, *y = b;
        if (x->first != y->first)
                return x->first < y->first ? -1 : 1;
        if (!x->count != !y->count)
                return x->count ? 1 : -1;
        return x->rank < y->rank ? -1 : 1;
}

sf_status sf_ranks_place(sf_shard *s, const sf_shard_card *cards, sf_ranks_part *parts)
{
        int64_t at = 0;
        const bool placed = card_of(cards, 0).placed;
        for (int32_t i = 0; i < s->ranks; i++) {
                const card c = card_of(cards, i);
                parts[i] = (sf_ranks_part){placed ? c.first : at, c.count, i};
                if (__builtin_add_overflow(at, c.count, &at))
                        return sf_fail(s->ctx, SF_INVALID_ARGUMENT, "the shards of ranks 0 to %d have more elements together than an axis can have", (int)i);
        }
        s->length = at;
        qsort(parts, (size_t)s->ranks, sizeof *parts, before);
        at = 0;
        for (int32_t i = 0; i < s->ranks; i++) {
                const sf_ranks_part *p = &parts[i];
                if (p->count && p->first != at)
                        return sf_fail(s->ctx, SF_INVALID_ARGUMENT, "the shard of rank %d begins at %" PRId64 ", but those before it end at %" PRId64 "; shards must follow one another",
                                       (int)p->rank, p->first, at);
                at += p->count;
        }
        const bool reverse = s->request.reverse;
        int64_t begin = 0;
        for (int32_t i = 0; i < s->ranks; i++) {
                const sf_ranks_part *p = &parts[reverse ? s->ranks - 1 - i : i];
                s->begin[i] = begin;
                s->place[p->rank] = i;
                begin += p->count;
        }
        s->begin[s->ranks] = begin;
        return SF_OK;
}
