/* The disk cache: what it keeps, what it rejects, and how it works without a folder. The
 * binaries are made up. */
#include "check.h"

#include "cuda/cache.h"
#include "cuda/cache_sha256.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char root[] = "/tmp/scanfold-cache-XXXXXX";

static sf_cache_key key_of(int number)
{
        sf_cache_key key = {{0}, "scan_rows sum f32 to f32, sm_90, NVRTC 13.0"};
        for (int i = 0; i < 32; i++)
                key.hash[i] = (unsigned char)(number * 37 + i * (number + 11));
        key.hash[0] = (unsigned char)number;
        key.hash[1] = (unsigned char)(number >> 8);
        return key;
}

static sf_binary binary_of(int number, size_t size)
{
        sf_binary b = {malloc(size), size, number % 2 == 0};
        for (size_t i = 0; i < size; i++)
                ((unsigned char *)b.image)[i] = (unsigned char)((size_t)number * 131 + i * 7 + (i >> 8));
        return b;
}

static bool keep(int number, size_t size)
{
        sf_cache_key key = key_of(number);
        sf_binary b = binary_of(number, size);
        bool kept = sf_cache_write(&key, &b);
        free(b.image);
        return kept;
}

/* 0: not there; 1: there and right; -1: there and wrong. */
static int look(int number, size_t size)
{
        sf_cache_key key = key_of(number);
        sf_binary got = {NULL, 0, false}, right = binary_of(number, size);
        int found = 0;
        if (sf_cache_read(&key, &got)) {
                bool same = got.size == right.size && got.ptx == right.ptx && !memcmp(got.image, right.image, right.size) &&
                            ((char *)got.image)[got.size] == '\0';
                found = same ? 1 : -1;
                free(got.image);
        }
        free(right.image);
        return found;
}

static void path_of(int number, char path[512])
{
        sf_cache_key key = key_of(number);
        int length = snprintf(path, 512, "%s/", getenv("SCANFOLD_CACHE_DIR"));
        for (int i = 0; i < 32; i++)
                length += snprintf(path + length, (size_t)(512 - length), "%02x", key.hash[i]);
        snprintf(path + length, (size_t)(512 - length), "%s", SF_CACHE_SUFFIX);
}

static long files(int64_t *bytes)
{
        DIR *dir = opendir(getenv("SCANFOLD_CACHE_DIR"));
        struct dirent *entry;
        struct stat about;
        long count = 0;
        *bytes = 0;
        while (dir && (entry = readdir(dir)))
                if (entry->d_name[0] != '.' && !fstatat(dirfd(dir), entry->d_name, &about, 0)) {
                        count++;
                        *bytes += (int64_t)about.st_size;
                }
        if (dir)
                closedir(dir);
        return count;
}

static void use_folder(const char *name)
{
        char path[256];
        snprintf(path, sizeof path, "%s/%s", root, name);
        setenv("SCANFOLD_CACHE_DIR", path, 1);
}

static void test_round_trip(void)
{
        int64_t bytes;
        use_folder("a/new/folder");
        CHECK(look(1, 1000) == 0, "found in a folder that is not there");
        CHECK(sf_cache_each(NULL, NULL) == 0 && sf_cache_clear_files() == 0, "entries in a folder that is not there");
        for (int i = 0; i < 10; i++) {
                size_t size = (size_t)1 << (2 * i);
                CHECK(keep(i, size) && look(i, size) == 1, "entry of %zu bytes", size);
        }
        CHECK(keep(3, 64) && look(3, 64) == 1, "written twice");
        CHECK(files(&bytes) == 10 && sf_cache_each(NULL, NULL) == 10, "%ld files", files(&bytes));
        sf_cache_key key = key_of(4);
        sf_cache_forget(&key);
        CHECK(look(4, 256) == 0, "forgotten, and found");
        CHECK(sf_cache_clear_files() == 9 && files(&bytes) == 0, "%ld files left", files(&bytes));
}

/* Each of these must read as absent, and be replaced by the next write. */
static void test_disbelief(void)
{
        char path[512], other[512];
        struct stat about;
        use_folder("disbelief");
        CHECK(keep(1, 3000) && look(1, 3000) == 1, "written");
        path_of(1, path);
        stat(path, &about);
        for (off_t at = 0; at < about.st_size; at += at < 320 ? 1 : 97) {
                int file = open(path, O_RDWR);
                unsigned char byte = 0;
                CHECK(pread(file, &byte, 1, at) == 1, "read");
                byte ^= (unsigned char)(1 << (at % 8));
                CHECK(pwrite(file, &byte, 1, at) == 1, "write");
                close(file);
                CHECK(look(1, 3000) == 0, "byte %ld was changed", (long)at);
                CHECK(sf_cache_each(NULL, NULL) == 0, "byte %ld was changed, and it is listed", (long)at);
                CHECK(keep(1, 3000) && look(1, 3000) == 1, "not replaced");
        }
        for (off_t length = 0; length < about.st_size; length += 61) {
                CHECK(!truncate(path, length) && look(1, 3000) == 0, "cut to %ld bytes", (long)length);
                CHECK(keep(1, 3000), "not replaced");
        }
        CHECK(!truncate(path, about.st_size + 1) && look(1, 3000) == 0, "one byte longer");
        CHECK(keep(1, 3000), "not replaced");

        path_of(2, other); /* another key's file under this key's name */
        CHECK(keep(2, 3000) && !rename(other, path) && look(1, 3000) == 0, "another key's");
        CHECK(keep(1, 3000) && look(1, 3000) == 1, "not replaced");

        unlink(path);
        CHECK(keep(2, 3000) && !symlink(other, path) && look(1, 3000) == 0, "a link");
        CHECK(keep(1, 3000) && look(1, 3000) == 1 && look(2, 3000) == 1, "not replaced");
        unlink(path);
        CHECK(!mkfifo(path, 0600) && look(1, 3000) == 0, "a pipe");
        CHECK(keep(1, 3000) && look(1, 3000) == 1, "not replaced");
        if (!geteuid()) {
                CHECK(!chown(path, 12345, 12345) && look(1, 3000) == 0, "another user's");
                CHECK(keep(1, 3000) && look(1, 3000) == 1, "not replaced");
        }
        unlink(path);
        CHECK(!mkdir(path, 0700) && look(1, 3000) == 0 && !keep(1, 3000), "a folder");
        CHECK(!rmdir(path), "the folder is not empty");
        int64_t bytes;
        CHECK(files(&bytes) == 1, "temporary files were left: %ld", files(&bytes) - 1);
}

static void test_folders(void)
{
        char path[SF_CACHE_PATH], expected[256];
        unsetenv("SCANFOLD_CACHE_DIR");
        setenv("XDG_CACHE_HOME", root, 1);
        snprintf(expected, sizeof expected, "%s/scanfold", root);
        CHECK(sf_cache_folder(path, false) && !strcmp(path, expected), "%s", path);
        setenv("XDG_CACHE_HOME", "relative", 1); /* which the XDG specification tells to ignore */
        setenv("HOME", root, 1);
        snprintf(expected, sizeof expected, "%s/.cache/scanfold", root);
        CHECK(sf_cache_folder(path, false) && !strcmp(path, expected), "%s", path);
        CHECK(keep(1, 100) && look(1, 100) == 1, "under HOME");
        unsetenv("XDG_CACHE_HOME");
        unsetenv("HOME");
        CHECK(!sf_cache_folder(path, true) && !*path && !keep(1, 100) && look(1, 100) == 0, "no home: %s", path);
        CHECK(sf_cache_each(NULL, NULL) == 0 && sf_cache_clear_files() == 0, "no home");
        setenv("SCANFOLD_CACHE_DIR", "", 1);
        CHECK(!sf_cache_folder(path, true) && !keep(1, 100), "switched off");
        setenv("SCANFOLD_CACHE_DIR", "/proc/no/such", 1);
        CHECK(!keep(1, 100) && look(1, 100) == 0, "a folder that cannot be made");
        setenv("SCANFOLD_CACHE_DIR", "/proc", 1);
        CHECK(!keep(1, 100) && look(1, 100) == 0, "a folder that cannot be written");
        use_folder("read-only");
        CHECK(keep(1, 100) && !chmod(getenv("SCANFOLD_CACHE_DIR"), 0500) && look(1, 100) == 1, "a folder that can be read");
        if (geteuid())
                CHECK(!keep(2, 100), "written to a read-only folder");
        chmod(getenv("SCANFOLD_CACHE_DIR"), 0700);
}

static void set_age(int number, time_t seconds)
{
        char path[512];
        struct timespec times[2];
        path_of(number, path);
        clock_gettime(CLOCK_REALTIME, &times[0]);
        times[0].tv_sec -= seconds;
        times[1] = times[0];
        CHECK(!utimensat(AT_FDCWD, path, times, 0), "%s", path);
}

static void test_limit(void)
{
        int64_t bytes;
        char path[512];
        use_folder("limit");
        setenv("SCANFOLD_CACHE_MB", "1", 1);
        for (int i = 0; i < 9; i++) {
                CHECK(keep(i, 100000), "%d", i);
                set_age(i, 10000 - 100 * i);
        }
        CHECK(look(0, 100000) == 1, "the oldest"); /* and so the latest used */
        for (int i = 9; i < 15; i++)
                CHECK(keep(i, 100000), "%d", i);
        CHECK(files(&bytes) == 10 && bytes <= 1 << 20, "%ld files of %ld bytes", files(&bytes), (long)bytes);
        CHECK(look(0, 100000) == 1 && look(1, 100000) == 0 && look(5, 100000) == 0 && look(14, 100000) == 1, "not the least recently used went");
        snprintf(path, sizeof path, "%s/temporary-abcdef", getenv("SCANFOLD_CACHE_DIR"));
        close(open(path, O_CREAT | O_WRONLY, 0600));
        sf_cache_trim(getenv("SCANFOLD_CACHE_DIR"));
        CHECK(!access(path, F_OK), "another process may be writing it");
        struct timespec old[2] = {{1000, 0}, {1000, 0}};
        utimensat(AT_FDCWD, path, old, 0);
        sf_cache_trim(getenv("SCANFOLD_CACHE_DIR"));
        CHECK(access(path, F_OK), "left over by a process long dead, and still there");
        snprintf(path, sizeof path, "%s/somebody's notes", getenv("SCANFOLD_CACHE_DIR"));
        close(open(path, O_CREAT | O_WRONLY, 0600));
        CHECK(keep(22, 2 << 20) && look(22, 2 << 20) == 0, "more than all may hold, and kept");
        setenv("SCANFOLD_CACHE_MB", "0", 1);
        CHECK(!keep(23, 10), "kept, with a limit of nothing");
        setenv("SCANFOLD_CACHE_MB", "a lot", 1);
        CHECK(keep(23, 10) && look(23, 10) == 1, "a limit that is no number counts as the default");
        unsetenv("SCANFOLD_CACHE_MB");
        CHECK(sf_cache_clear_files() >= 1 && !access(path, F_OK), "a file that is not ours was removed");
}

/* ------------------------------------------------------------------------------------------------
 * Two hundred at once
 * ---------------------------------------------------------------------------------------------- */
enum { WORKERS = 200, THREADED = 25, THREADS = 4, ENTRIES = 12, SIZE = 20000, TURNS = 12 };

/* What a crash, a full disk or a careless copy may leave under an entry's name, while others use it. */
static void damage(int number, int how)
{
        char path[512];
        path_of(number, path);
        const int file = open(path, how % 3 ? O_WRONLY : O_WRONLY | O_CREAT | O_TRUNC, 0600);
        const char nonsense[] = "scanfold, but no kernel";
        if (file < 0)
                return;
        if (how % 3 == 1)
                how = ftruncate(file, SIZE / 3);
        else if (pwrite(file, nonsense, sizeof nonsense, how % 3 ? SIZE / 2 : 0) < 0)
                how = 0;
        close(file);
}

/* One worker's turns; it is wrong that an entry is found and is not what was kept. */
static void *work(void *of)
{
        const int worker = (int)(intptr_t)of;
        for (int turn = 0; turn < TURNS; turn++) {
                const int number = (turn * 7 + worker) % ENTRIES;
                if (turn % 4 == 3)
                        damage(number, worker + turn);
                else
                        keep(number, SIZE);
                if (look((number + worker) % ENTRIES, SIZE) < 0)
                        _exit(1);
                if (turn == worker % (4 * TURNS))
                        sf_cache_clear_files();
                if (turn == 5)
                        sf_cache_each(NULL, NULL);
        }
        return NULL;
}

static pid_t start(int worker)
{
        fflush(NULL);
        const pid_t child = fork();
        if (child)
                return child;
        pthread_t threads[THREADS];
        const int more = worker % (WORKERS / THREADED) == 0 ? THREADS : 0;
        for (int i = 0; i < more; i++)
                if (pthread_create(&threads[i], NULL, work, (void *)(intptr_t)(worker + 3 * i + 1)))
                        _exit(2);
        work((void *)(intptr_t)worker);
        for (int i = 0; i < more; i++)
                pthread_join(threads[i], NULL);
        _exit(0);
}

/* Two hundred processes, some of them with threads, write and read the same few entries, list them, clear them, damage them; one in five is killed at some moment. */
static void test_many(void)
{
        static pid_t children[WORKERS];
        int64_t bytes;
        long killed = 0;
        use_folder("many");
        for (int p = 0; p < WORKERS; p++) {
                children[p] = start(p);
                if (p % 5 == 2) { /* while it, and those before it, are at work */
                        usleep((useconds_t)(p * 37 % 3000));
                        kill(children[p - p % 2], SIGKILL);
                }
        }
        for (int p = 0; p < WORKERS; p++) {
                int status;
                waitpid(children[p], &status, 0);
                const bool dead = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
                killed += dead;
                CHECK(dead || (WIFEXITED(status) && !WEXITSTATUS(status)), "process %d ended with %x", p, (unsigned)status);
        }
        CHECK(killed, "nobody was killed in the middle");
        for (int i = 0; i < ENTRIES; i++) {
                CHECK(look(i, SIZE) >= 0, "%d is wrong", i);
                CHECK(keep(i, SIZE) && look(i, SIZE) == 1, "%d is not replaced", i);
        }
        CHECK(sf_cache_each(NULL, NULL) == ENTRIES, "%ld entries", (long)sf_cache_each(NULL, NULL));
        /* Temporary files of killed processes are removed once they are old enough. */
        DIR *dir = opendir(getenv("SCANFOLD_CACHE_DIR"));
        struct dirent *entry;
        const struct timespec old[2] = {{1000, 0}, {1000, 0}};
        while (dir && (entry = readdir(dir)))
                if (!strncmp(entry->d_name, "temporary-", 10))
                        utimensat(dirfd(dir), entry->d_name, old, 0);
        if (dir)
                closedir(dir);
        sf_cache_trim(getenv("SCANFOLD_CACHE_DIR"));
        CHECK(files(&bytes) == ENTRIES, "%ld files", files(&bytes));
}

/* Digests that the standard (FIPS 180-4) and its examples give, of texts that end at every kind of place in a block; in one piece and byte by byte. */
static void test_sha256(void)
{
        static const struct {
                const char *text;
                int times;
                const char *digest;
        } known[] = {{"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                     {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
                     {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
                     {"a", 1000, "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3"}};
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
                for (size_t piece = 1; piece < 3; piece++) {
                        const size_t length = strlen(known[i].text), step = piece == 1 ? 1 : length + 1;
                        unsigned char digest[32];
                        char hex[65] = "";
                        sf_sha256 s;
                        sf_sha256_start(&s);
                        for (int k = 0; k < known[i].times; k++)
                                for (size_t at = 0; at < length; at += step)
                                        sf_sha256_add(&s, known[i].text + at, length - at < step ? length - at : step);
                        sf_sha256_end(&s, digest);
                        for (int b = 0; b < 32; b++)
                                snprintf(hex + 2 * b, 3, "%02x", digest[b]);
                        CHECK(!strcmp(hex, known[i].digest), "SHA-256 of %d times \"%s\" is %s", known[i].times, known[i].text, hex);
                }
}

/* Whatever the binary depends on is in its key. */
static void test_keys(void)
{
        sf_cache_key a, b;
        sf_compiler compiler = {13, 0, "/dev/null", 1, {90}}, newer = {13, 1, "/dev/null", 1, {90}}, other = {13, 0, "/proc/self/exe", 1, {90}};
        sf_cuda_spec spec = {.kernel = 0};
        sf_cache_key_make(&a, &compiler, &spec, "source", "sm_90");
        sf_cache_key_make(&b, &compiler, &spec, "source", "sm_90");
        CHECK(!memcmp(&a, &b, sizeof a), "the same things, another key");
        const struct {
                const sf_compiler *compiler;
                const char *source, *arch, *what;
        } variants[] = {{&compiler, "Source", "sm_90", "source"},
                        {&compiler, "source", "sm_80", "chip"},
                        {&compiler, "source", "compute_90", "PTX"},
                        {&newer, "source", "sm_90", "version"},
                        {&other, "source", "sm_90", "file"}};
        for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
                sf_cache_key_make(&b, variants[i].compiler, &spec, variants[i].source, variants[i].arch);
                CHECK(memcmp(a.hash, b.hash, sizeof a.hash), "another %s, the same key", variants[i].what);
        }
}

int main(void)
{
        char command[128];
        if (!mkdtemp(root))
                return 2;
        test_sha256();
        test_keys();
        test_round_trip();
        test_disbelief();
        test_limit();
        test_many();
        test_folders();
        snprintf(command, sizeof command, "rm -rf %s", root);
        if (system(command))
                fprintf(stderr, "%s was not removed\n", root);
        return finish("test_cache");
}
