/*
 * fork: a child goes on using the library and its contexts, whatever threads the parent had. A child that hangs is
 * ended by its alarm, which the parent reports.
 */
#include "harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 500, COLUMNS = 1000, N = ROWS * COLUMNS };

static float *x, *rows_right, *line_right;
static long checks;

/* Work that several threads share: rows, then one long line. 0 if it is right. */
static int parallel_work(sf_context *ctx)
{
        float *y = malloc(N * 4);
        int64_t rows[2] = {ROWS, COLUMNS}, line = N;
        if (!y)
                return 1;
        sf_tensor tx = tensor(x, SF_F32, 2, rows), ty = tensor(y, SF_F32, 2, rows);
        int wrong = sf_scan(ctx, &tx, &ty, NULL) != SF_OK || memcmp(y, rows_right, N * 4);
        tx = tensor(x, SF_F32, 1, &line);
        ty = tensor(y, SF_F32, 1, &line);
        wrong |= sf_scan(ctx, &tx, &ty, NULL) != SF_OK || memcmp(y, line_right, N * 4);
        free(y);
        return wrong;
}

static void child(const char *what, sf_context *ctx, bool grandchild)
{
        fflush(NULL);
        pid_t pid = fork();
        if (!pid) {
                alarm(60);
                int wrong = parallel_work(ctx);
                sf_context_options o = SF_CONTEXT_OPTIONS_INIT; /* and one of its own */
                sf_context *own;
                o.threads = 3;
                wrong |= sf_context_create(&own, &o) != SF_OK || parallel_work(own);
                if (grandchild && !wrong) {
                        child("a child of a child", ctx, false);
                        wrong = failures != 0;
                }
                _exit(wrong ? 1 : 0);
        }
        int status = 0;
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "fork: no child");
        CHECK(!WIFSIGNALED(status), "%s: the child was ended by signal %d%s", what, WTERMSIG(status),
              WTERMSIG(status) == SIGALRM ? ", its alarm: it hung" : "");
        CHECK(WIFSIGNALED(status) || !WEXITSTATUS(status), "%s: the child computed something else", what);
        checks++;
}

static atomic_bool stop;

static void *keep_busy(void *ctx)
{
        int wrong = 0;
        while (!atomic_load(&stop))
                wrong |= parallel_work(ctx);
        return wrong ? &stop : NULL;
}

int main(void)
{
        int64_t rows[2] = {ROWS, COLUMNS}, line = N;
        engines_open();
        x = malloc(N * 4);
        rows_right = malloc(N * 4);
        line_right = malloc(N * 4);
        if (!x || !rows_right || !line_right)
                abort();
        fill(DT_F32, FILL_mixed, false, 3, N, x);
        sf_tensor tx = tensor(x, SF_F32, 2, rows), ty = tensor(rows_right, SF_F32, 2, rows);
        CHECK(sf_scan(REF, &tx, &ty, NULL) == SF_OK, "%s", sf_last_error(REF));
        tx = tensor(x, SF_F32, 1, &line);
        ty = tensor(line_right, SF_F32, 1, &line);
        CHECK(sf_scan(REF, &tx, &ty, NULL) == SF_OK, "%s", sf_last_error(REF));

        for (int i = 1; i < engine_count; i++) {
                sf_context *ctx = engines[i].ctx;
                child("before any work", ctx, false);
                CHECK(!parallel_work(ctx), "%s is wrong before a fork", engines[i].name);
                child("after parallel work", ctx, true);
                CHECK(!parallel_work(ctx), "%s is wrong after a fork", engines[i].name);
        }

        /* While another thread is in the middle of a call on the same context, holding whatever it holds. */
        sf_context *ctx = engines[engine_count - 1].ctx;
        pthread_t busy;
        void *wrong = NULL;
        if (pthread_create(&busy, NULL, keep_busy, ctx))
                abort();
        for (int i = 0; i < 40 && !failures; i++)
                child("while another thread computes", ctx, false);
        atomic_store(&stop, true);
        pthread_join(busy, &wrong);
        CHECK(!wrong, "the thread that computed while we forked was wrong");
        free(x);
        free(rows_right);
        free(line_right);
        engines_close();
        return finish("test_fork", checks);
}
