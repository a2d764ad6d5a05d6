/*
 * find.inc.h: where in a row an element is. Template, included by map_types.inc.h once for each
 * size of elements, which it defines as F_BITS.
 */
#define F_CAT_(a, b) a##b
#define F_CAT(a, b) F_CAT_(a, b)
#define F_C F_CAT(F_CAT(uint, F_BITS), _t)
#define F_VECTOR F_CAT(v_u, F_BITS)
#define F(name) F_CAT(F_CAT(name, _), F_BITS)

/* The number of the first or last element of which the bits `keep` are at least low, and at most
 * low + span. There is one. */
SF_INLINE int64_t F(find_row)(const char *x, int64_t count, bool last, F_C keep, F_C low, F_C span)
{
        const int64_t bytes = count * (int64_t)sizeof(F_C), whole = bytes - V_BYTES;
        char part[V_BYTES] = {0};
        const char *from = x;
        if (whole < 0)
                from = memcpy(part, x, (size_t)bytes);
        for (int64_t done = 0; done <= bytes; done += V_BYTES) {
                int64_t at = last ? whole - done : done < whole ? done : whole;
                at = at < 0 ? 0 : at;
                const F_VECTOR v = ((F_VECTOR)v_raw_load(from + at) & keep) - low;
                uint64_t on = v_bytes_on((v_raw)(v <= span));
                if (whole < 0)
                        on &= ((uint64_t)1 << bytes) - 1;
                if (on)
                        return (at + (last ? 63 - __builtin_clzll(on) : __builtin_ctzll(on))) * 8 / F_BITS;
        }
        return 0; /* the caller has changed elements meanwhile */
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
                f->at[r] = F(find_row)(f->x + r * f->row, f->count, f->last, keep, value, span);
        }
}
#undef F_CAT_
#undef F_CAT
#undef F_C
#undef F_VECTOR
#undef F
#undef F_BITS
