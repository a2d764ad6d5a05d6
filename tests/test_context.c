/* Contexts: what they take from options and from the environment, and that each thread and
 * context has its own sentence. */
#include "harness.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static long checks;
static sf_context *ctx;
static float x[4], y[4];

/* Fails, with the rank in its sentence, unless that is 1. */
static sf_status scan_of_rank(sf_context *on, int32_t ndim)
{
        int64_t shape[1] = {4};
        sf_tensor in = tensor(x, SF_F32, ndim, shape), out = tensor(y, SF_F32, 1, shape);
        return sf_scan(on, &in, &out, NULL);
}

static void create_fails(int line, const sf_context_options *o, const char *word, const char *second)
{
        sf_context *made = (sf_context *)y;
        sf_status status = sf_context_create(&made, o);
        checks++;
        if (status != SF_INVALID_ARGUMENT || made != (sf_context *)y || !strstr(sf_last_error(NULL), word) ||
            !strstr(sf_last_error(NULL), second))
                fail_at(__FILE__, line, "%s, \"%s\"; it should have named %s and %s", sf_status_name(status),
                        sf_last_error(NULL), word,
                        second);
}

/* Options from an older header, which are shorter, and from a newer one, which are longer. */
static void sizes(void)
{
        struct {
                sf_context_options known;
                int64_t later;
        } newer = {SF_CONTEXT_OPTIONS_INIT, 0};
        sf_context_options *o = &newer.known;
        sf_context *made;
        checks += 4;
        o->threads = 3;
        o->size = sizeof newer;
        CHECK(sf_context_create(&made, o) == SF_OK && sf_context_threads(made) == 3, "longer options that ask for nothing new were refused");
        sf_context_destroy(made);
        newer.later = 1;
        CHECK(sf_context_create(&made, o) == SF_UNSUPPORTED && strstr(sf_last_error(NULL), "newer header"), "%s", sf_last_error(NULL));

        /* Bytes beyond the older size are not read. */
        o->size = offsetof(sf_context_options, isa);
        o->isa = "z80";
        CHECK(sf_context_create(&made, o) == SF_OK && sf_context_threads(made) == 3, "shorter options were refused: %s", sf_last_error(NULL));
        sf_context_destroy(made);
        o->size = sizeof o->size - 1;
        create_fails(__LINE__, o, "options->size is 7", "sf_context_options");
        CHECK(sf_context_create(&made, &(sf_context_options){sizeof(size_t), 9, SF_BACKEND_AUTO, "z80"}) == SF_OK, "%s", sf_last_error(NULL));
        sf_context_destroy(made);
}

static void contexts(void)
{
        sf_context_options o = SF_CONTEXT_OPTIONS_INIT;
        checks++;
        CHECK(sf_context_create(NULL, &o) == SF_INVALID_ARGUMENT && strstr(sf_last_error(NULL), "ctx is NULL"), "%s",
              sf_last_error(NULL));
        o.size = 0;
        create_fails(__LINE__, &o, "options->size is 0", "sf_context_options");
        o = (sf_context_options)SF_CONTEXT_OPTIONS_INIT;
        o.threads = -1;
        create_fails(__LINE__, &o, "threads is -1", "0");
        o = (sf_context_options)SF_CONTEXT_OPTIONS_INIT;
        o.backend = (sf_backend)9;
        create_fails(__LINE__, &o, "backend is 9", "SF_BACKEND_REF");
        o = (sf_context_options)SF_CONTEXT_OPTIONS_INIT;
        o.isa = "z80";
        create_fails(__LINE__, &o, "z80", "portable");
        sf_context_destroy(NULL);
        sizes();

        /* A set field wins over the environment; the environment over the default. */
        sf_context *made;
        setenv("SCANFOLD_NUM_THREADS", "3", 1);
        setenv("OMP_NUM_THREADS", "7", 1);
        CHECK(sf_context_create(&made, NULL) == SF_OK && sf_context_threads(made) == 3,
              "SCANFOLD_NUM_THREADS=3 was not heard");
        sf_context_destroy(made);
        o = (sf_context_options)SF_CONTEXT_OPTIONS_INIT;
        o.threads = 2;
        CHECK(sf_context_create(&made, &o) == SF_OK && sf_context_threads(made) == 2, "threads = 2 was not heard");
        sf_context_destroy(made);
        unsetenv("SCANFOLD_NUM_THREADS");
        CHECK(sf_context_create(&made, NULL) == SF_OK && sf_context_threads(made) == 7,
              "OMP_NUM_THREADS=7 was not heard");
        sf_context_destroy(made);
        setenv("OMP_NUM_THREADS", "4,2", 1);
        CHECK(sf_context_create(&made, NULL) == SF_OK && sf_context_threads(made) == 4,
              "OMP_NUM_THREADS=4,2 was not heard");
        sf_context_destroy(made);
        unsetenv("OMP_NUM_THREADS");
        setenv("SCANFOLD_BACKEND", "ref", 1);
        CHECK(sf_context_create(&made, NULL) == SF_OK && !strcmp(sf_context_isa(made), "ref"),
              "SCANFOLD_BACKEND=ref was not heard");
        sf_context_destroy(made);
        unsetenv("SCANFOLD_BACKEND");
        setenv("SCANFOLD_ISA", "portable", 1);
        CHECK(sf_context_create(&made, NULL) == SF_OK && !strcmp(sf_context_isa(made), "portable"),
              "SCANFOLD_ISA was not heard");
        sf_context_destroy(made);
        unsetenv("SCANFOLD_ISA");
        for (int on = 0; on < 2; on++) {
                setenv("SCANFOLD_CHECK", on ? "1" : "0", 1);
                CHECK(sf_context_create(&made, NULL) == SF_OK, "SCANFOLD_CHECK=%d: %s", on, sf_last_error(NULL));
                sf_context_destroy(made);
        }
        unsetenv("SCANFOLD_CHECK");
        checks += 8;

        static const char *const wrong[][2] = {
                {"SCANFOLD_NUM_THREADS", "many"}, {"SCANFOLD_NUM_THREADS", "0"},  {"SCANFOLD_NUM_THREADS", "-2"},
                {"SCANFOLD_NUM_THREADS", "3x"},   {"OMP_NUM_THREADS", "1e3"},
                        {"SCANFOLD_NUM_THREADS", "99999999999999999999"},
                {"SCANFOLD_BACKEND", "gpu"},      {"SCANFOLD_ISA", "pentium"},  {"SCANFOLD_CHECK", "yes"},
        };
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
                setenv(wrong[i][0], wrong[i][1], 1);
                create_fails(__LINE__, NULL, strcmp(wrong[i][0], "SCANFOLD_ISA") ? wrong[i][0] : "", wrong[i][1]);
                unsetenv(wrong[i][0]);
        }
        /* An empty variable counts as unset. */
        setenv("SCANFOLD_NUM_THREADS", "", 1);
        setenv("SCANFOLD_ISA", "", 1);
        setenv("SCANFOLD_BACKEND", "", 1);
        setenv("SCANFOLD_CHECK", "", 1);
        CHECK(sf_context_create(&made, NULL) == SF_OK, "%s", sf_last_error(NULL));
        sf_context_destroy(made);
        unsetenv("SCANFOLD_NUM_THREADS");
        unsetenv("SCANFOLD_ISA");
        unsetenv("SCANFOLD_BACKEND");
        unsetenv("SCANFOLD_CHECK");
}

static void *another_thread(void *unused)
{
        CHECK(!*sf_last_error(ctx), "a new thread sees \"%s\"", sf_last_error(ctx));
        scan_of_rank(ctx, 65);
        CHECK(strstr(sf_last_error(ctx), "65"), "a thread does not see its own sentence");
        return unused;
}

static void sentences(void)
{
        sf_context *other;
        pthread_t thread;
        CHECK(sf_context_create(&other, NULL) == SF_OK, "%s", sf_last_error(NULL));
        scan_of_rank(ctx, -9);
        CHECK(strstr(sf_last_error(ctx), "-9"), "%s", sf_last_error(ctx));
        CHECK(!*sf_last_error(other), "another context has \"%s\"", sf_last_error(other));
        CHECK(!*sf_last_error(NULL), "the default context has \"%s\"", sf_last_error(NULL));
        CHECK(!pthread_create(&thread, NULL, another_thread, NULL) && !pthread_join(thread, NULL), "no thread");
        CHECK(strstr(sf_last_error(ctx), "-9"), "another thread's failure replaced the sentence by \"%s\"",
              sf_last_error(ctx));
        CHECK(scan_of_rank(ctx, 1) == SF_OK, "%s", sf_last_error(ctx));
        CHECK(strstr(sf_last_error(ctx), "-9"), "a call that worked took the sentence away");
        sf_context_destroy(other);
        scan_of_rank(NULL, -8);
        CHECK(strstr(sf_last_error(NULL), "-8") && !*sf_last_error(ctx),
              "the default context's sentence is not its own");
        checks += 9;

        CHECK(!strcmp(sf_status_name(SF_OK), "SF_OK") && !strcmp(sf_status_name((sf_status)99), "unknown status"),
              "sf_status_name");
        CHECK(!strcmp(sf_op_name(SF_MIN), "min") && !sf_op_name((sf_op)77), "sf_op_name");
        CHECK(sf_version() == SF_VERSION && !strcmp(sf_version_string(), "0.1.0"), "version %s", sf_version_string());
        CHECK(!sf_isa_name(-1, NULL) && !sf_isa_name(1000, NULL), "sf_isa_name beyond the ends");
}

/* The default context of a process whose environment is wrong: every call says so, none of them crashes. */
static void wrong_default(void)
{
        setenv("SCANFOLD_NUM_THREADS", "lots", 1);
        for (int again = 0; again < 2; again++) {
                CHECK(scan_of_rank(NULL, 1) == SF_INVALID_ARGUMENT, "a wrong environment was accepted");
                CHECK(strstr(sf_last_error(NULL), "lots"), "%s", sf_last_error(NULL));
        }
        CHECK(sf_context_threads(NULL) == 1 && sf_context_isa(NULL) != NULL, "a default context that is none");
        checks += 5;
}

int main(int argc, char **argv)
{
        static const char *const names[] = {"SCANFOLD_NUM_THREADS", "OMP_NUM_THREADS", "SCANFOLD_BACKEND",
                                            "SCANFOLD_ISA", "SCANFOLD_CHECK"};
        for (int i = 0; i < 5; i++)
                unsetenv(names[i]);
        if (argc > 1 && !strcmp(argv[1],
                                "wrong-default")) { /* the default context is made once: a process of its own */
                wrong_default();
                return finish("test_context wrong-default", checks);
        }
        if (sf_context_create(&ctx, NULL) != SF_OK) {
                FAIL("no context: %s", sf_last_error(NULL));
                return finish("test_context", checks);
        }
        contexts();
        sentences();
        sf_context_destroy(ctx);
        return finish("test_context", checks);
}
