/* scanfold._scanfold: what one rank computes of an axis that many have; scanfold/distributed.py exchanges it. */
#ifndef SCANFOLD_PYTHON_SHARDS_H
#define SCANFOLD_PYTHON_SHARDS_H

#include "_common.h"

/* The extension's methods of that kind, to be listed with the others; the last one is empty. */
extern PyMethodDef shard_methods[];

#endif
