/*
 * signals.h: cleans up whatever ends the program: a signal, a library that calls exit, a page of a
 * mapping that cannot be read. Only after SIGKILL and _exit is nothing cleaned up.
 */
#ifndef SCANFOLD_SIGNALS_H
#define SCANFOLD_SIGNALS_H

#include <stdint.h>

/*
 * Between hold and release no signal ends the program: one that arrives takes effect at release.
 * For work that must not be interrupted: creating a file and dooming it, renaming several. It works
 * whichever thread the kernel chooses for the signal.
 */
void hold_signals(void);
void release_signals(void);

/*
 * doom_file names a file that is removed when the program ends, unless spare_file is called for it.
 * The string is not copied: it must stay valid.
 */
void doom_file(const char *path);
void spare_file(const char *path);

/*
 * If a page of the mapping cannot be read or written (the file was truncated, the disk is full),
 * the handler writes the sentence, which includes "scanfold: " and the newline, and the program
 * exits with status 1. The sentence must outlive the mapping.
 */
void watch_mapping(const unsigned char *start, uint64_t size, const char *sentence);
void unwatch_mapping(const unsigned char *start);

void catch_signals(void);

#endif /* SCANFOLD_SIGNALS_H */
