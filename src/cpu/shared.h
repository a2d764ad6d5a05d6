/* shared.h: what shared.c and carried.c use of each other. */
#ifndef SF_CPU_SHARED_H
#define SF_CPU_SHARED_H

#include "cpu/panel.h"

/* The two walks, over neighbouring chunks, take turns: a chunk is walked in this many parts. */
#define SF_SHARED_PIECES 4

typedef struct sf_chunk {
        int64_t index, line, number; /* index is line * chunks + number */
        int64_t whole;               /* number of whole leaves */
        int64_t over;                /* positions after those, at the end of a sequence */
        int side;                    /* which half of the scratch of carried.c it uses */
        sf_piece fold, scan, end;    /* whole leaves, for each walk, and the rest */
} sf_chunk;

typedef struct sf_sharer {
        sf_crew *c;
        const sf_panels *p;
        sf_fused_machine machine;
        sf_walker walker[2];  /* for the first walk and the second, each with its scratch */
        char *table, *raw[2]; /* for carried.c */
        sf_run run;
        int64_t line;    /* the line whose leaves have been counted */
        int64_t counted; /* and how many of them */
} sf_sharer;

/* The carry that all leaves of a chunk combine after their own; used by carried.c. */
sf_carry *sf_shared_common(const sf_sharer *w);
/* to = the combination of a carry's entries, and then of the entries of `more`, which may be
 * NULL. */
void sf_shared_sum(sf_sharer *w, const sf_panel_member *m, char *to, const sf_carry *carry,
                   const sf_carry *more);

/* Can an axis be scanned once? In rows, or in runs: narrow matrices that are back to back. */
bool sf_carried_rows(const sf_panels *p);
bool sf_carried_runs(const sf_panels *p);
/* Lays out sf_carried_bytes of memory. */
void sf_carried_place(sf_sharer *w, char *room);
/* The first walk over `next` and the second over `now`; either may be NULL. */
void sf_carried_walk(sf_sharer *w, sf_chunk *now, sf_chunk *next);
/* Copies the totals of the leaves from where the first walk has left them. */
void sf_carried_totals(sf_sharer *w, const sf_chunk *k);
/* Prepares for the second walk over a chunk whose carries are known. */
void sf_carried_set(sf_sharer *w, const sf_chunk *k);

#endif
