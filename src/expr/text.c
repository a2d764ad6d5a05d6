#include "expr/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sf_text_add(sf_text *t, const char *format, ...)
{
        va_list args;
        va_start(args, format);
        size_t room = t->text && t->at < t->size ? t->size - t->at : 0;
        int length = vsnprintf(room ? t->text + t->at : NULL, room, format, args);
        va_end(args);
        t->at += length > 0 ? (size_t)length : 0;
}

void sf_text_real(sf_text *t, double value, int digits)
{
        char text[64];
        snprintf(text, sizeof text, "%.*f", digits, value);
        for (char *c = text; *c; c++)
                *c = *c == ',' ? '.' : *c;
        sf_text_add(t, "%s", text);
}

void sf_text_json(sf_text *t, const char *plain)
{
        for (; *plain; plain++) {
                unsigned char c = (unsigned char)*plain;
                if (c == '"' || c == '\\')
                        sf_text_add(t, "\\%c", c);
                else if (c < 32)
                        sf_text_add(t, "\\u%04x", c);
                else
                        sf_text_add(t, "%c", c);
        }
}

void sf_text_xml(sf_text *t, const char *plain)
{
        for (; *plain; plain++) {
                const char *name = *plain == '<' ? "lt" : *plain == '>' ? "gt" : *plain == '&' ? "amp" : *plain == '"' ? "quot" : NULL;
                if (name)
                        sf_text_add(t, "&%s;", name);
                else
                        sf_text_add(t, "%c", *plain);
        }
}
