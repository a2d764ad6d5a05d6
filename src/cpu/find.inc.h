/*
 * find.inc.h: where in a row an element is. Template, included by map_types.inc.h once for each
 * size of elements, which it defines as F_BITS.
 */
#define F_CAT_(a, b) a##b
#define F_CAT(a, b) F_CAT_(a, b)
#define F_C F_CAT(F_CAT(uint, F_BITS), _t)
#define F_VECTOR F_CAT(v_u, F_BITS)
#define F(name) F_CAT(F_CAT(name, _), F_BITS)

/* A bit for each byte of the elements from `at` on of which the bits `keep` are at least low, and
 * at most low + span. */
SF_INLINE uint64_t F(bytes_of)(const char *at, F_C keep, F_C low, F_C span)
{
        const F_VECTOR v = ((F_VECTOR)v_raw_load(at) & keep) - low;
        return v_bytes_on((v_raw)(v <= span));
}

/* The number of the first or last such element of a row. There is one. Four vectors are compared
 * before a branch: a short row would end at another vector than the row before it, which no
 * processor can foresee. */
SF_INLINE int64_t F(find_row)(const char *x, int64_t count, const bool last, F_C keep, F_C low,
                              F_C span)
{
        enum { MANY = 4 };
        const int64_t bytes = count * (int64_t)sizeof(F_C), whole = bytes - V_BYTES;
        char part[V_BYTES] = {0};
        const char *from = x;
        uint64_t found = 0, on;
        int64_t done = 0, at = 0;
        for (; !found && done + MANY * V_BYTES <= bytes; done += MANY * V_BYTES) {
                const int64_t first = last ? whole - done : done;
                V_UNROLL
                for (int i = MANY - 1; i >= 0; i--) { /* the one that counts comes last */
                        const int64_t here = first + (last ? -i : i) * V_BYTES;
                        on = F(bytes_of)(from + here, keep, low, span);
                        at = on ? here : at;
                        found = on ? on : found;
                }
        }
        if (whole < 0)
                from = memcpy(part, x, (size_t)bytes);
        for (; !found && done <= bytes; done += V_BYTES) {
                at = last ? whole - done : done < whole ? done : whole;
                at = at < 0 ? 0 : at;
                found = F(bytes_of)(from + at, keep, low, span);
                if (whole < 0)
                        found &= ((uint64_t)1 << bytes) - 1;
        }
        if (!found)
                return 0; /* the caller has changed elements meanwhile */
        return (at + (last ? 63 - __builtin_clzll(found) : __builtin_ctzll(found))) * 8 / F_BITS;
}

static void F(find)(const sf_find *f)
{
        const sf_kind kind = sf_dtypes[f->dt].kind;
        const F_C sign = (F_C)((F_C)1 << (F_BITS - 1)), all = (F_C)~(F_C)0;
        for (int64_t r = 0; r < f->rows; r++) {
                F_C value, keep = all, span = 0;
                memcpy(&value, f->best + r * (int64_t)sizeof value, sizeof value);
                if (kind == SF_KIND_BOOL && value) { /* any byte but zero is true */
                        value = 1;
                        span = all - 1;
                }
                if (kind == SF_KIND_REAL && !(value & (F_C)~sign)) { /* a zero of either sign */
                        keep = (F_C)~sign;
                        value = 0;
                } else if (kind == SF_KIND_REAL && (value & (F_C)~sign) > (F_C)f->infinity) {
                        /* any NaN */
                        keep = (F_C)~sign;
                        value = (F_C)f->infinity + 1;
                        span = (F_C)(sign - 1 - value);
                }
                const char *x = f->x + r * f->row;
                f->at[r] = f->last ? F(find_row)(x, f->count, true, keep, value, span)
                                   : F(find_row)(x, f->count, false, keep, value, span);
        }
}
#undef F_CAT_
#undef F_CAT
#undef F_C
#undef F_VECTOR
#undef F
#undef F_BITS
