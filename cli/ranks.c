/* ranks.c: see ranks.h. */
#include "ranks.h"
#include "mpi/world.h"
#include "signals.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(x) #x
#define EXPANDED(x) TEXT(x)
#define LIBRARY "libscanfold_mpi.so." EXPANDED(SF_MPI_SOVERSION)

static const sf_mpi_world *world; /* NULL: this process is alone */
static int rank, ranks = 1;

int ranks_start(void)
{
        /* RTLD_GLOBAL because MPI loads parts of itself, and those look for its symbols
         * globally. */
        void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
        if (!library)
                return complain("--mpi needs %s, which is built where CMake finds MPI (Debian: libopenmpi-dev), and is not here: %s", LIBRARY, dlerror());
        const sf_mpi_world *found = dlsym(library, SF_MPI_WORLD_NAME);
        if (!found || found->version != SF_VERSION)
                return complain("%s is not of version %s, as this program is; install the two together", LIBRARY, sf_version_string());
        world = found;
        world->open(&rank, &ranks);
        catch_signals(); /* MPI may have changed the handlers of some of them */
        keep_complaints();
        return CLI_DONE;
}

void ranks_end(void)
{
        if (world)
                world->close();
        world = NULL;
}

int ranks_first(void)
{
        return rank == 0;
}

int ranks_agree(int status)
{
        if (!world)
                return status;
        int first = world->least(status ? rank : ranks);
        if (first == ranks)
                return CLI_DONE;
        const char *sentence = take_complaint();
        if (rank == first && first)
                fprintf(stderr, "scanfold: rank %d: %s\n", rank, sentence);
        else if (rank == first)
                fprintf(stderr, "scanfold: %s\n", sentence);
        return status ? status : CLI_FAILED;
}

int ranks_create(struct output *output, const char *path, uint64_t size)
{
        char name[PATH_MAX] = "";
        int status = CLI_DONE;
        if (!world)
                return output_create(output, path, size);
        memset(output, 0, sizeof(*output));
        if (!rank) {
                status = output_create(output, path, size);
                if (!status)
                        status = output_share(output, name, sizeof(name));
        }
        status = ranks_agree(status);
        world->tell(name, sizeof(name));
        if (!status)
                status = ranks_agree(rank ? output_join(output, path, name, size) : CLI_DONE);
        if (status)
                outputs_abandon(output, 1);
        return status;
}

int ranks_work(struct work *work)
{
        return world ? ranks_agree(do_shard(work, rank, ranks, world->shard)) : do_work(work);
}

int ranks_commit(struct output *output)
{
        if (!world)
                return outputs_commit(output, 1);
        /* What the other ranks have written must be on the disk before the file gets its name. */
        int status = ranks_agree(rank ? output_leave(output) : CLI_DONE);
        if (status)
                outputs_abandon(output, 1);
        else
                status = ranks_agree(rank ? CLI_DONE : outputs_commit(output, 1));
        if (!status)
                output_forget(output);
        outputs_abandon(output, 1);
        return status;
}
