/* Names as the log has them: count u32, fingerprints u64[n], bytes of each u32[n], text; not aligned. Source: riata/wire/names.py */
#ifndef RIATA_NAMES_H
#define RIATA_NAMES_H
#include <string.h>

#include "riata.h"

#define SPREAD 0x9E3779B97F4A7C15ull /* of models over the places of a table that has the names of several */

typedef struct {
    const u8 *fingerprint, *length, *text;
    i64 n;
} name_list;

static inline name_list names_of(const u8 *content) {
    u32 n;
    memcpy(&n, content, sizeof n);
    const u8 *fingerprint = content + sizeof n, *length = fingerprint + sizeof(u64) * n;
    return (name_list){fingerprint, length, length + sizeof(u32) * n, n};
}

static inline u64 fingerprint_of(const name_list *names, i64 i) {
    u64 fingerprint;
    memcpy(&fingerprint, names->fingerprint + sizeof fingerprint * (size_t)i, sizeof fingerprint);
    return fingerprint;
}

static inline u32 length_of(const name_list *names, i64 i) {
    u32 length;
    memcpy(&length, names->length + sizeof length * (size_t)i, sizeof length);
    return length;
}

static inline i64 text_bytes(const name_list *names) {
    i64 bytes = 0;
    for (i64 i = 0; i < names->n; i++)
        bytes += length_of(names, i);
    return bytes;
}

#endif
