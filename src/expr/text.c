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

/* The number of bytes of the UTF-8 character here; 0 if there is none: an invalid byte, or a
 * truncated character. */
static int character(const char *text)
{
        const unsigned char *c = (const unsigned char *)text;
        const int length = c[0] < 0x80   ? 1
                           : c[0] < 0xc2 ? 0
                           : c[0] < 0xe0 ? 2
                           : c[0] < 0xf0 ? 3
                           : c[0] < 0xf5 ? 4
                                         : 0;
        for (int i = 1; i < length; i++)
                if ((c[i] & 0xc0) != 0x80)
                        return 0;
        /* An overlong form, a UTF-16 surrogate, or a number past the last character. */
        if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
            (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f))
                return 0;
        return length;
}

void sf_text_json(sf_text *t, const char *plain)
{
        for (int length; *plain; plain += length ? length : 1) {
                unsigned char c = (unsigned char)*plain;
                length = character(plain);
                if (!length)
                        sf_text_add(t, "\\ufffd");
                else if (c == '"' || c == '\\')
                        sf_text_add(t, "\\%c", c);
                else if (c < 32)
                        sf_text_add(t, "\\u%04x", c);
                else
                        sf_text_add(t, "%.*s", length, plain);
        }
}

/* XML allows no control characters, not even as escapes. */
void sf_text_xml(sf_text *t, const char *plain)
{
        for (int length; *plain; plain += length ? length : 1) {
                const char *name = *plain == '<' ? "lt" : *plain == '>' ? "gt" : *plain == '&' ? "amp" : *plain == '"' ? "quot" : NULL;
                length = character(plain);
                if (name)
                        sf_text_add(t, "&%s;", name);
                else if (!length || (unsigned char)*plain < 32)
                        sf_text_add(t, "&#xfffd;");
                else
                        sf_text_add(t, "%.*s", length, plain);
        }
}
