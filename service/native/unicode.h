/* Characters of one pinned version of Unicode. Theory of operation: riata/wire/scan.py. */
#ifndef RIATA_UNICODE_H
#define RIATA_UNICODE_H

#include "bytes.h"

/* Flags of a character; its canonical combining class from CLASS_SHIFT on. */
enum { LETTER = 1, IDEOGRAPH = 2, CONTROL = 4, NEVER = 8, MAYBE = 16, DROPPED = 32, CLASS_SHIFT = 8 };

u32 flags_of(u32 point);
u32 folded(u32 point);             /* simple case folding */
i64 composed(u32 first, u32 second); /* 0: no composed form, but not in form C; -1: in form C as it is */

/* Decode the character at *p, which is before `stop`; *p moves behind it. Returns -1 if it is not UTF-8. */
i64 code_point(const u8 **p, const u8 *stop);

/* Write a character in UTF-8; returns where it ends. */
u8 *put_point(u8 *at, u32 point);

/* INVALID_UTF8; otherwise BAD_NAME if there is a control character; otherwise NOT_NFC or OK. */
int string_code(const u8 *p, const u8 *stop);

/* Check a part of a name, which may be empty: OK, INVALID_UTF8, BAD_NAME, NAME_TOO_LONG or NOT_NFC, in this precedence. */
static inline int name_code(const u8 *p, const u8 *stop) {
    int code = string_code(p, stop);
    return stop - p > NAME_BYTES_MAX && (code == OK || code == NOT_NFC) ? NAME_TOO_LONG : code;
}

#endif
