/* text.h: appends text to a buffer of limited size. */
#ifndef SF_TEXT_H
#define SF_TEXT_H

#include "core/core.h"

typedef struct sf_text {
        char *text; /* NULL: the text is only counted */
        size_t size;
        size_t at;  /* the length of all text; what does not fit into size - 1 bytes is dropped */
} sf_text;

void sf_text_add(sf_text *t, const char *format, ...) SF_PRINTF(2, 3);
/* A real with this number of digits after the decimal point, which is a point in every locale. */
void sf_text_real(sf_text *t, double value, int digits);
/* Escaped for a JSON string, a DOT label, or XML. */
void sf_text_json(sf_text *t, const char *plain);
void sf_text_xml(sf_text *t, const char *plain);

#endif
