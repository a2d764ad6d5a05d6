/* signals.h: what the signal handlers need to know, told ahead by files.c. */
#ifndef SCANFOLD_SIGNALS_H
#define SCANFOLD_SIGNALS_H

#include <signal.h>
#include <stdint.h>

/* No handler runs between hold and release: for the moment between making a file and dooming it. */
struct held_signals {
        sigset_t before;
};
void hold_signals(struct held_signals *held);
void release_signals(const struct held_signals *held);

/* The one file to remove when a signal ends the program; NULL for none. */
void doom_file(const char *path);

/*
 * If a page of the mapping cannot be had (the file was cut, the disk is full), the handler writes the sentence, whole
 * with "scanfold: " and the newline, and the program exits with status 1. The sentence must outlive the mapping.
 */
void watch_mapping(const unsigned char *start, uint64_t size, const char *sentence);
void unwatch_mapping(const unsigned char *start);

void catch_signals(void);

#endif /* SCANFOLD_SIGNALS_H */
