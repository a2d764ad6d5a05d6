/* How many CPUs' time control groups leave a process: by files as systems have them. */
#include "harness.h"

#include "cpu/cpus.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define V2 "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1 "33 25 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n" \
           "34 25 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
#define ROOT "20 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"

static const struct {
        const char *what;
        int32_t cpus;
        const char *group, *mounts;
        const char *file[8]; /* names below /sys/fs/cgroup, each followed by what is in it */
} systems[] = {
        {"no control groups", 0, NULL, NULL, {NULL}},
        {"no limit", 0, "0::/a\n", ROOT V2, {"a/cpu.max", "max 100000\n"}},
        {"one and a half", 2, "0::/a\n", ROOT V2, {"a/cpu.max", "150000 100000\n"}},
        {"a tenth", 1, "0::/a\n", ROOT V2, {"a/cpu.max", "10000 100000\n"}},
        {"three, of short periods", 3, "0::/a\n", ROOT V2, {"a/cpu.max", "30000 10000\n"}},
        {"a group around", 2, "0::/a/b/c\n", ROOT V2,
         {"a/cpu.max", "200000 100000\n", "a/b/cpu.max", "max 100000\n", "a/b/c/cpu.max",
          "700000 100000\n"}},
        {"a container, at the top", 5, "0::/\n", ROOT V2, {"cpu.max", "500000 100000\n"}},
        {"a container that sees its group outside", 5, "0::/../b\n", ROOT V2,
         {"cpu.max", "500000 100000\n"}},
        {"a part of the tree is mounted", 4, "0::/docker/1/a\n",
         "30 23 0:26 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup ro\n",
         {"a/cpu.max", "400000 100000\n", "docker/1/a/cpu.max", "100000 100000\n"}},
        {"another part of the tree is mounted", 6, "0::/docker/12\n",
         "30 23 0:26 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup ro\n",
         {"cpu.max", "600000 100000\n", "2/cpu.max", "100000 100000\n"}},
        {"nothing is mounted", 0, "0::/a\n", ROOT, {"a/cpu.max", "150000 100000\n"}},
        {"version 1", 3, "5:cpuset:/z\n4:cpu,cpuacct:/a\n1:name=systemd:/s\n", ROOT V1,
         {"cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n", "cpu,cpuacct/a/cpu.cfs_period_us",
          "100000\n"}},
        {"version 1, no limit", 0, "4:cpuacct,cpu:/a\n", ROOT V1,
         {"cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n", "cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"}},
        {"version 1 in a container", 1, "4:cpu,cpuacct:/docker/9\n",
         "34 25 0:30 /docker/9 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
         {"cpu,cpuacct/cpu.cfs_quota_us", "50000\n", "cpu,cpuacct/cpu.cfs_period_us", "100000\n"}},
        {"both versions: the one with the controller", 2, "0::/a\n4:cpu,cpuacct:/a\n", ROOT V1
         "35 25 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
         {"cpu,cpuacct/a/cpu.cfs_quota_us", "200000\n", "cpu,cpuacct/a/cpu.cfs_period_us",
          "100000\n", "unified/a/cpu.max", "100000 100000\n"}},
        {"both versions, in the other order", 2, "4:cpu,cpuacct:/a\n0::/a\n", ROOT V1 V2,
         {"cpu,cpuacct/a/cpu.cfs_quota_us", "200000\n", "cpu,cpuacct/a/cpu.cfs_period_us",
          "100000\n", "a/cpu.max", "100000 100000\n"}},
        {"no numbers", 0, "0::/a\nnonsense\n", "nonsense\n" V2, {"a/cpu.max", "a lot\n"}},
        {"no time at all", 0, "0::/a\n", ROOT V2, {"a/cpu.max", "0 0\n"}},
};

static void put(const char *root, const char *name, const char *text)
{
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", root, name);
        for (char *at = strchr(path + strlen(root) + 1, '/'); at; at = strchr(at + 1, '/')) {
                *at = 0;
                CHECK(!mkdir(path, 0700) || errno == EEXIST, "%s cannot be made", path);
                *at = '/';
        }
        FILE *file = fopen(path, "w");
        CHECK(file && fputs(text, file) >= 0 && !fclose(file), "%s cannot be written", path);
}

static int take_away(const char *path, const struct stat *about, int kind, struct FTW *walk)
{
        (void)about;
        (void)kind;
        (void)walk;
        return remove(path);
}

int main(void)
{
        const char *temporary = getenv("TMPDIR");
        long checks = 0;
        for (size_t i = 0; i < sizeof systems / sizeof *systems; i++, checks++) {
                char root[512];
                snprintf(root, sizeof root, "%s/scanfold-quota-XXXXXX",
                         temporary && strlen(temporary) < 400 ? temporary : "/tmp");
                CHECK(mkdtemp(root), "%s cannot be made", root);
                if (systems[i].group)
                        put(root, "proc/self/cgroup", systems[i].group);
                if (systems[i].mounts)
                        put(root, "proc/self/mountinfo", systems[i].mounts);
                for (int k = 0; k < 8 && systems[i].file[k]; k += 2) {
                        char name[256];
                        snprintf(name, sizeof name, "sys/fs/cgroup/%s", systems[i].file[k]);
                        put(root, name, systems[i].file[k + 1]);
                }
                const int32_t cpus = sf_cpu_quota(root);
                CHECK(cpus == systems[i].cpus, "%s: %d CPUs, not %d", systems[i].what, (int)cpus,
                      (int)systems[i].cpus);
                CHECK(!nftw(root, take_away, 8, FTW_DEPTH | FTW_PHYS), "%s stays", root);
        }
        CHECK(sf_cpu_count() >= 1 && (!sf_cpu_quota("") || sf_cpu_count() <= sf_cpu_quota("")),
              "%d CPUs where time is left of %d", (int)sf_cpu_count(), (int)sf_cpu_quota(""));
        return finish("test_quota", checks + 1);
}
