/* shared.h: what shared.c and carried.c know of each other. */
#ifndef SF_CPU_SHARED_H
#define SF_CPU_SHARED_H

#include "cpu/panel.h"

/* How finely a chunk's two walks are interleaved with those of its neighbours: in so many parts. */
#define SF_SHARED_PIECES 4

typedef struct sf_chunk {
        int64_t index, line, number; /* index is line * chunks + number */
        int64_t whole;               /* leaves that are */
        int64_t over;                /* positions after them, at the end of a sequence */
        int side;                    /* of the carried way's scratch */
        sf_piece fold, scan, end;    /* the whole leaves, of each walk, and what is over */
} sf_chunk;

typedef struct sf_sharer {
        sf_crew *c;
        const sf_panels *p;
        sf_fused_machine machine;
        sf_walker walker[2];  /* of the first walk and of the second, with scratch each */
        char *table, *raw[2]; /* the carried way's */
        sf_run run;
        int64_t line;    /* whose leaves have been counted, */
        int64_t counted; /* so many */
} sf_sharer;

/* The carry that all leaves of a chunk add after their own: the carried way's. */
sf_carry *sf_shared_common(const sf_sharer *w);
/* to = what is in a carry's entries, and then in `more`'s, summed up; more may be NULL. */
void sf_shared_sum(sf_sharer *w, const sf_panel_member *m, char *to, const sf_carry *carry,
                   const sf_carry *more);

/* May an axis be scanned once? In rows, or in runs: narrow matrices, back to back. */
bool sf_carried_rows(const sf_panels *p);
bool sf_carried_runs(const sf_panels *p);
/* Gives out sf_carried_bytes of memory. */
void sf_carried_place(sf_sharer *w, char *room);
/* The first walk over `next` and the second over `now`; either may be NULL. */
void sf_carried_walk(sf_sharer *w, sf_chunk *now, sf_chunk *next);
/* The leaves' totals, from where the first walk has left them. */
void sf_carried_totals(sf_sharer *w, const sf_chunk *k);
/* A chunk's carries are known: prepares what the second walk needs of them. */
void sf_carried_set(sf_sharer *w, const sf_chunk *k);

#endif
