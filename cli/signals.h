/*
 * signals.h: dying tidily, whatever ends the program: a signal, a library that calls exit, a page
 * that cannot be had. Only SIGKILL and _exit run no code of ours.
 */
#ifndef SCANFOLD_SIGNALS_H
#define SCANFOLD_SIGNALS_H

#include <stdint.h>

/*
 * Between hold and release no signal ends the program: one that comes is acted on at release. For
 * what must not be torn apart: making a file and dooming it, renaming several. It holds whichever
 * thread the kernel picks for the signal.
 */
void hold_signals(void);
void release_signals(void);

/*
 * A file to remove when the program ends, until it is spared. The string is not copied: it must
 * stay where it is.
 */
void doom_file(const char *path);
void spare_file(const char *path);

/*
 * If a page of the mapping cannot be had (the file was cut, the disk is full), the handler writes the sentence, whole
 * with "scanfold: " and the newline, and the program exits with status 1. The sentence must outlive the mapping.
 */
void watch_mapping(const unsigned char *start, uint64_t size, const char *sentence);
void unwatch_mapping(const unsigned char *start);

void catch_signals(void);

#endif /* SCANFOLD_SIGNALS_H */
