/*
 * Shards of an axis, for Python: sf_shard_card_make and the functions after it. The functions take
 * positional arguments of fixed types; scanfold/distributed.py has the signatures for users.
 *
 * shard_card(x, a, mask, out, op, axis, fold, keepdim, reverse, exclusive, initial) -> bytes
 * shard_failed(sentence) -> bytes
 * shard_open(the arguments of shard_card, rank, ranks, cards) -> a capsule that keeps the arrays
 * shard_places(shard) -> (length, first, the place of each rank)
 * shard_bytes(shard, from, to) -> bytes of the span of these places
 * shard_values(shard, span), shard_finish(shard, spans), shard_finish_from(shard, before): arrays
 *   of bytes
 * shard_join(shard, from, middle, to, left, right, joined)
 */
#include "_shards.h"

#include <string.h>

#define NAME "scanfold.shard"

enum { ASKED = 11 };

/* The arrays and options of one shard. */
typedef struct work {
        array array[4]; /* x, a, mask, out */
        PyObject *object[4];
        int opened[4];
        sf_shard_options options;
        sf_shard *shard;
        int32_t rank, ranks;
        sf_context *context;
} work;

static void work_end(work *w)
{
        sf_shard_destroy(w->shard);
        for (int i = 0; i < 4; i++) {
                if (w->opened[i])
                        array_close(&w->array[i]);
                Py_XDECREF(w->object[i]);
        }
        PyMem_Free(w);
}

static int read_number(PyObject *object, sf_scalar *scalar)
{
        memset(scalar, 0, sizeof *scalar);
        if (object == Py_None)
                return 0;
        if (PyLong_Check(object))
                return integer_read(object, "initial", scalar);
        *scalar = sf_real(PyFloat_AsDouble(object));
        return PyErr_Occurred() ? -1 : 0;
}

/* Opens the arrays and reads the options; NULL with an exception. */
static work *work_begin(PyObject *args)
{
        static const char *const names[4] = {"x", "a", "mask", "out"};
        const sf_shard_options usual = SF_SHARD_OPTIONS_INIT;
        PyObject *initial;
        int op;
        work *w = PyMem_Malloc(sizeof *w);
        if (!w)
                return (work *)PyErr_NoMemory();
        memset(w, 0, sizeof *w);
        w->options = usual;
        w->context = chosen_context();
        sf_shard_options *o = &w->options;
        if (!PyArg_ParseTuple(args, "OOOOiipppp" "O", &w->object[0], &w->object[1], &w->object[2], &w->object[3], &op, &o->axis, &o->fold, &o->keepdim,
                              &o->reverse, &o->exclusive, &initial)) {
                memset(w->object, 0, sizeof w->object);
                work_end(w);
                return NULL;
        }
        o->op = (sf_op)op;
        int rc = read_number(initial, &o->initial);
        for (int i = 0; i < 4; i++)
                Py_INCREF(w->object[i]);
        for (int i = 0; i < 4 && !rc; i++) {
                if (w->object[i] == Py_None)
                        continue;
                rc = array_open(w->object[i], names[i], OPEN_TRUSTED, &w->array[i]);
                w->opened[i] = !rc;
        }
        if (rc > 0)
                PyErr_SetString(PyExc_TypeError, "a tensor is more than its memory: shards are plain tensors");
        if (rc) {
                work_end(w);
                return NULL;
        }
        o->a = w->opened[1] ? &w->array[1].view : NULL;
        o->mask = w->opened[2] ? &w->array[2].view : NULL;
        o->stream = w->opened[0] ? w->array[0].stream : NULL;
        return w;
}

static PyObject *card_bytes(const sf_shard_card *card)
{
        return PyBytes_FromStringAndSize((const char *)card, sizeof *card);
}

static PyObject *shard_card(PyObject *self, PyObject *args)
{
        (void)self;
        sf_shard_card card;
        work *w = work_begin(args);
        if (!w)
                return NULL;
        sf_shard_card_make(chosen_context(), &w->array[0].view, &w->array[3].view, &w->options, &card);
        work_end(w);
        return card_bytes(&card);
}

static PyObject *shard_failed(PyObject *self, PyObject *args)
{
        (void)self;
        const char *sentence;
        sf_shard_card card;
        if (!PyArg_ParseTuple(args, "s", &sentence))
                return NULL;
        sf_shard_card_fail(SF_INVALID_ARGUMENT, sentence, &card);
        return card_bytes(&card);
}

static void capsule_end(PyObject *capsule)
{
        work_end(PyCapsule_GetPointer(capsule, NAME));
}

static PyObject *shard_open(PyObject *self, PyObject *args)
{
        (void)self;
        int rank, ranks;
        const char *cards;
        Py_ssize_t size;
        PyObject *asked = PyTuple_GetSlice(args, 0, ASKED), *rest = PyTuple_GetSlice(args, ASKED, PyTuple_Size(args));
        work *w = NULL;
        if (asked && rest && PyArg_ParseTuple(rest, "iiy#", &rank, &ranks, &cards, &size))
                w = work_begin(asked);
        Py_XDECREF(asked);
        PyObject *made = NULL;
        if (w && size != (Py_ssize_t)sizeof(sf_shard_card) * ranks) {
                PyErr_Format(PyExc_ValueError, "cards has %zd bytes; of %d ranks it must have %zd", size, ranks, (Py_ssize_t)sizeof(sf_shard_card) * ranks);
        } else if (w) {
                w->rank = rank;
                w->ranks = ranks;
                const sf_status status = sf_shard_create(w->context, &w->array[0].view, &w->array[3].view, &w->options, rank, ranks,
                                                         (const sf_shard_card *)(const void *)cards, &w->shard);
                made = status == SF_OK ? PyCapsule_New(w, NAME, capsule_end) : raise_status(w->context, status);
        }
        Py_XDECREF(rest);
        if (w && !made)
                work_end(w);
        return made;
}

static work *work_of(PyObject *capsule)
{
        return PyCapsule_GetPointer(capsule, NAME);
}

static PyObject *shard_places(PyObject *self, PyObject *args)
{
        (void)self;
        PyObject *capsule;
        if (!PyArg_ParseTuple(args, "O", &capsule))
                return NULL;
        const work *w = work_of(capsule);
        PyObject *places = w ? PyList_New(w->ranks) : NULL;
        for (int32_t i = 0; places && i < w->ranks; i++) {
                PyObject *place = PyLong_FromLong(sf_shard_place(w->shard, i));
                if (!place || PyList_SetItem(places, i, place) < 0)
                        Py_CLEAR(places);
        }
        return places ? Py_BuildValue("LLN", (long long)sf_shard_length(w->shard), (long long)sf_shard_first(w->shard), places) : NULL;
}

static PyObject *shard_bytes(PyObject *self, PyObject *args)
{
        (void)self;
        PyObject *capsule;
        int from, to;
        if (!PyArg_ParseTuple(args, "Oii", &capsule, &from, &to))
                return NULL;
        const work *w = work_of(capsule);
        return w ? PyLong_FromSize_t(sf_shard_span_bytes(w->shard, from, to)) : NULL;
}

/* Opens an array, which must have at least this many bytes. */
static int open_bytes(PyObject *object, size_t bytes, array *a)
{
        const int rc = array_open(object, "span", OPEN_TRUSTED, a);
        if (rc)
                return -1;
        if (array_elements(&a->view) >= (int64_t)bytes)
                return 0;
        PyErr_Format(PyExc_ValueError, "span has %lld bytes; it must have %zu", (long long)array_elements(&a->view), bytes);
        array_close(a);
        return -1;
}

static char *bytes_at(const array *a)
{
        return (char *)a->view.data + a->view.byte_offset;
}

typedef enum stage { VALUES, FINISH, FINISH_FROM } stage;

static size_t stage_bytes(const work *w, stage which)
{
        size_t all = 0;
        const int32_t end = w->options.fold ? w->ranks : sf_shard_place(w->shard, w->rank);
        for (int32_t i = 0; i < w->ranks; i++)
                all += which == FINISH ? sf_shard_bytes(w->shard, i) : 0;
        return which == VALUES ? sf_shard_bytes(w->shard, w->rank) : which == FINISH ? all : sf_shard_span_bytes(w->shard, 0, end);
}

static PyObject *compute(PyObject *args, stage which)
{
        PyObject *capsule, *object;
        array span;
        if (!PyArg_ParseTuple(args, "OO", &capsule, &object))
                return NULL;
        work *w = work_of(capsule);
        if (!w)
                return NULL;
        if (open_bytes(object, stage_bytes(w, which), &span) < 0)
                return NULL;
        const int32_t limit = sf_set_thread_limit(array_thread_limit(&w->array[0]));
        sf_status status;
        Py_BEGIN_ALLOW_THREADS
        status = which == VALUES   ? sf_shard_values(w->shard, bytes_at(&span))
                 : which == FINISH ? sf_shard_finish(w->shard, bytes_at(&span))
                                   : sf_shard_finish_from(w->shard, bytes_at(&span));
        Py_END_ALLOW_THREADS
        sf_set_thread_limit(limit);
        array_close(&span);
        if (status == SF_OK)
                return new_reference(Py_None);
        return raise_status(w->context, status);
}

static PyObject *shard_values(PyObject *self, PyObject *args)
{
        (void)self;
        return compute(args, VALUES);
}

static PyObject *shard_finish(PyObject *self, PyObject *args)
{
        (void)self;
        return compute(args, FINISH);
}

static PyObject *shard_finish_from(PyObject *self, PyObject *args)
{
        (void)self;
        return compute(args, FINISH_FROM);
}

static PyObject *shard_join(PyObject *self, PyObject *args)
{
        (void)self;
        PyObject *capsule, *object[3];
        int from, middle, to, opened = 0;
        array span[3];
        if (!PyArg_ParseTuple(args, "OiiiOOO", &capsule, &from, &middle, &to, &object[0], &object[1], &object[2]))
                return NULL;
        const work *w = work_of(capsule);
        if (!w)
                return NULL;
        const size_t bytes[3] = {sf_shard_span_bytes(w->shard, from, middle), sf_shard_span_bytes(w->shard, middle, to),
                                 sf_shard_span_bytes(w->shard, from, to)};
        while (opened < 3 && open_bytes(object[opened], bytes[opened], &span[opened]) == 0)
                opened++;
        sf_status status = SF_OK;
        if (opened == 3)
                status = sf_shard_join(w->shard, from, middle, to, bytes_at(&span[0]), bytes_at(&span[1]), bytes_at(&span[2]));
        for (int i = 0; i < opened; i++)
                array_close(&span[i]);
        if (opened < 3)
                return NULL;
        return status == SF_OK ? new_reference(Py_None) : raise_status(w->context, status);
}

PyMethodDef shard_methods[] = {
        {"shard_card", shard_card, METH_VARARGS, NULL},
        {"shard_failed", shard_failed, METH_VARARGS, NULL},
        {"shard_open", shard_open, METH_VARARGS, NULL},
        {"shard_places", shard_places, METH_VARARGS, NULL},
        {"shard_bytes", shard_bytes, METH_VARARGS, NULL},
        {"shard_values", shard_values, METH_VARARGS, NULL},
        {"shard_finish", shard_finish, METH_VARARGS, NULL},
        {"shard_finish_from", shard_finish_from, METH_VARARGS, NULL},
        {"shard_join", shard_join, METH_VARARGS, NULL},
        {NULL, NULL, 0, NULL},
};
