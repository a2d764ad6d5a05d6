/* text.h: text of any length into a buffer of a given one. */
#ifndef SF_TEXT_H
#define SF_TEXT_H

#include "core/core.h"

typedef struct sf_text {
        char *text; /* NULL: only counted */
        size_t size;
        size_t at;  /* how long all of it is; what lies past size - 1 is dropped */
} sf_text;

void sf_text_add(sf_text *t, const char *format, ...) SF_PRINTF(2, 3);
/* A real with so many digits after the point, which is a point. */
void sf_text_real(sf_text *t, double value, int digits);
/* Escaped for a JSON string, a DOT label, or XML. */
void sf_text_json(sf_text *t, const char *plain);
void sf_text_xml(sf_text *t, const char *plain);

#endif
