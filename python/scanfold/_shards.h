/* scanfold._scanfold: what one rank computes of an axis that many ranks share;
 * scanfold/distributed.py does the exchange. */
#ifndef SCANFOLD_PYTHON_SHARDS_H
#define SCANFOLD_PYTHON_SHARDS_H

#include "_common.h"

/* The methods for that, to be added to the extension's; the last entry is empty. */
extern PyMethodDef shard_methods[];

#endif
