/* The plan as a picture: for graphviz (DOT), and as SVG. */
#include "expr/explain.h"

#include <string.h>

static const char *tone(const sf_pass *pass)
{
        return !pass->core ? "#dfe8d5" : pass->step.fold ? "#f6dfc6" : "#d4e4f2";
}

/* ------------------------------------------------------------------------------------------------------------
 * DOT
 * ---------------------------------------------------------------------------------------------------------- */
void sf_explain_dot(sf_story *s, sf_text *t)
{
        const sf_plan *plan = s->plan;
        sf_text_add(t, "digraph plan {\n  rankdir=LR;\n  node [shape=box, style=filled, fontname=\"monospace\", fillcolor=\"#ffffff\"];\n");
        for (int32_t b = 0; b < plan->buffers; b++) {
                const sf_buffer *buffer = &plan->buffer[b];
                char shape[128], name[16];
                bool used = buffer->place != SF_PLACE_SCRATCH || s->label[buffer->node];
                if (!used)
                        continue;
                sf_text_add(t, "  b%d [shape=ellipse, label=\"", (int)b);
                sf_text_json(t, sf_story_buffer(s, b, name));
                sf_text_add(t, "\\n%s %s\"];\n", sf_dtypes[buffer->dt].name, sf_shape_text(buffer->ndim, buffer->shape, shape));
        }
        for (int32_t i = 0, group = 0; i < plan->passes; i++) {
                const sf_pass *pass = plan->pass[i];
                group += !sf_pass_joins(pass);
                sf_text_add(t, "  p%d [fillcolor=\"%s\", label=\"pass %d: %s%s\\n", (int)i, tone(pass), (int)group, sf_story_kind(pass),
                            pass->sibling ? ", same read" : sf_pass_joins(pass) ? ", same lines" : "");
                sf_text_json(t, sf_story_show(s, pass->root, true));
                sf_text_add(t, "\"];\n");
                for (int32_t k = 0; k < pass->operands; k++)
                        sf_text_add(t, "  b%d -> p%d;\n", (int)pass->operand[k].buffer, (int)i);
                if (pass->masked)
                        sf_text_add(t, "  b%d -> p%d [style=dashed, label=\"mask\"];\n", (int)pass->mask.buffer, (int)i);
                sf_text_add(t, "  p%d -> b%d;\n", (int)i, (int)pass->out.buffer);
        }
        sf_text_add(t, "}\n");
}

/* ------------------------------------------------------------------------------------------------------------
 * SVG: one row for each pass; under them the bytes moved before and after, as bars
 * ---------------------------------------------------------------------------------------------------------- */
enum { WIDTH = 860, ROW = 58, MARGIN = 20, LETTERS = 92 };

static void svg_text(sf_text *t, int x, int y, const char *style, const char *plain)
{
        sf_text_add(t, "<text x=\"%d\" y=\"%d\" %s>", x, y, style);
        sf_text_xml(t, plain);
        sf_text_add(t, "</text>\n");
}

static void svg_bar(sf_text *t, int y, const char *name, const sf_traffic *x, double most)
{
        char line[128];
        double width = most > 0 ? (WIDTH - 2 * MARGIN) * (x->read + x->written) / most : 0;
        sf_text line_text = {line, sizeof line, 0};
        sf_text_add(t, "<rect x=\"%d\" y=\"%d\" height=\"12\" fill=\"#8aa\" width=\"", MARGIN, y);
        sf_text_real(t, width < 1 ? 1 : width, 1);
        sf_text_add(t, "\"/>\n");
        sf_text_add(&line_text, "%s: %d pass%s, ", name, (int)x->passes, x->passes == 1 ? "" : "es");
        sf_text_real(&line_text, 1e-6 * (x->read + x->written), 1);
        sf_text_add(&line_text, " MB moved");
        svg_text(t, MARGIN, y + 26, "font-size=\"12\"", line);
}

void sf_explain_svg(sf_story *s, sf_text *t)
{
        const sf_plan *plan = s->plan;
        int height = MARGIN * 2 + 24 + plan->passes * ROW + 90;
        sf_text_add(t, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"monospace\">\n", WIDTH, height, WIDTH,
                    height);
        sf_text_add(t, "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", WIDTH, height);
        char line[LETTERS + 4], name[16];
        for (int32_t i = 0, group = 0; i < plan->passes; i++) {
                const sf_pass *pass = plan->pass[i];
                int y = MARGIN + i * ROW;
                sf_text line_text = {line, LETTERS, 0};
                group += !sf_pass_joins(pass);
                sf_text_add(t, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"%s\" stroke=\"#667\"/>\n", MARGIN, y, WIDTH - 2 * MARGIN, ROW - 10,
                            tone(pass));
                sf_text_add(&line_text, "pass %d, %s%s: ", (int)group, sf_story_kind(pass), pass->sibling ? " of the same read" : sf_pass_joins(pass) ? " of the same lines" : "");
                for (int32_t k = 0; k < pass->operands; k++)
                        sf_text_add(&line_text, k ? ", %s" : "%s",
                                    sf_story_buffer(s, pass->operand[k].buffer, name));
                sf_text_add(&line_text, " -> %s", sf_story_buffer(s, pass->out.buffer, name));
                svg_text(t, MARGIN + 10, y + 18, "font-size=\"12\" fill=\"#445\"", line);
                const char *shown = sf_story_show(s, pass->root, true);
                size_t length = strlen(shown) < LETTERS ? strlen(shown) : LETTERS;
                /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): the next line ends the string */
                memcpy(line, shown, length);
                memcpy(line + length, length == LETTERS ? "..." : "", length == LETTERS ? 4 : 1);
                svg_text(t, MARGIN + 10, y + 37, "font-size=\"14\"", line);
        }
        double before = s->before.read + s->before.written, after = s->after.read + s->after.written;
        svg_bar(t, MARGIN + 8 + plan->passes * ROW, "one pass an operator", &s->before, before > after ? before : after);
        svg_bar(t, MARGIN + 48 + plan->passes * ROW, "this plan", &s->after, before > after ? before : after);
        sf_text_add(t, "</svg>\n");
}
