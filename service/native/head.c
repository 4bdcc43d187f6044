/* Plain HTTP/1.1 request heads. What is plain: riata/web/server/heads.py. Source: RFC 9112 (request line, field lines); RFC 9110. */
#include "text.h"

enum { HEAD_NOT_PLAIN = 0, HEAD_INCOMPLETE = -1, LENGTH_DIGITS_MAX = 18 };
enum { IS_POST, TARGET, PATH_STOP, TARGET_STOP, LENGTH, LINES_BYTES, LINES, HOST, HEAD_WORDS = 17 };
/* Headers that are looked at. Those before CONTENT_LENGTH are handed out; those from REFUSED on are not plain. */
enum { CONTENT_LENGTH = 5, CONNECTION, REFUSED, OTHER = 14 };
static const char *const NAMES[OTHER] = {
    "host",       "accept",            "content-type",     "authorization", "idempotency-key", "content-length", "connection",
    "transfer-encoding", "content-encoding", "expect",      "upgrade",         "origin",         "sec-fetch-site", "proxy-connection",
};
static const u8 NAME_SIZES[OTHER] = {4, 6, 12, 13, 15, 14, 10, 17, 16, 6, 7, 6, 14, 16};

/* The lower case of a byte that may be in a name; 0 for any other. */
static u8 lower(u8 c) {
    if ((u8)(c - 'a') < 26 || c == '-' || is_digit(c))
        return c;
    if ((u8)(c - 'A') < 26)
        return c | 32;
    return c != 0 && strchr("!#$%&'*+.^_`|~", c) ? c : 0;
}

static bool in_value(u8 c) { return (c >= ' ' && c < 0x7F) || c == '\t'; }

static bool in_target(u8 c) { return c > ' ' && c < 0x7F && c != '#'; }

/* Whether start:stop is a word in lower case, whatever its case. */
static bool says(const u8 *start, const u8 *stop, const char *word, i64 size) {
    bool same = stop - start == size;
    for (i64 i = 0; same && i < size; i++)
        same = lower(start[i]) == (u8)word[i];
    return same;
}

static int name_of(const u8 *start, const u8 *stop) {
    for (int which = 0; which < OTHER; which++)
        if (says(start, stop, NAMES[which], NAME_SIZES[which]))
            return which;
    return OTHER;
}

/* The number that the bytes write in decimal digits; -1 if they do not. */
static i64 number_at(const u8 *start, const u8 *stop) {
    i64 number = 0;
    if (start == stop || stop - start > LENGTH_DIGITS_MAX)
        return -1;
    for (const u8 *p = start; p < stop; p++) {
        if (!is_digit(*p))
            return -1;
        number = 10 * number + (*p - '0');
    }
    return number;
}

/* Read `word` at p. Returns 1 if it is there, HEAD_INCOMPLETE if as much of it as has arrived, otherwise HEAD_NOT_PLAIN. */
static int expect(const u8 *p, const u8 *end, const char *word, i64 size) {
    for (i64 i = 0; i < size; i++) {
        if (p + i >= end)
            return HEAD_INCOMPLETE;
        if (p[i] != (u8)word[i])
            return HEAD_NOT_PLAIN;
    }
    return 1;
}

/* Parse the first line into the words of the target. Returns the offset of the next line, HEAD_NOT_PLAIN or HEAD_INCOMPLETE. */
static i64 request_line(const u8 *head, const u8 *end, i64 *found) {
    if (head == end)
        return HEAD_INCOMPLETE;
    bool is_post = *head == 'P';
    i64 size = is_post ? 6 : 5;
    int code = expect(head, end, is_post ? "POST /" : "GET /", size);
    if (code <= 0)
        return code;
    const u8 *p = head + size, *question = NULL;
    for (; p < end && in_target(*p); p++)
        if (*p == '?' && !question)
            question = p;
    found[IS_POST] = is_post ? 5 : 0, found[TARGET] = size - 1;
    found[TARGET_STOP] = p - head, found[PATH_STOP] = (question ? question : p) - head;
    code = expect(p, end, " HTTP/1.1\r\n", 11);
    return code <= 0 ? code : p + 11 - head;
}

/* Store what a header says. Returns whether it is plain; `seen` has a bit for each header so far. */
static bool take_header(const u8 *head, const u8 *value, const u8 *stop, int which, unsigned *seen, i64 *found) {
    if (which == OTHER)
        return true;
    if (*seen >> which & 1 || stop == value)
        return false;
    *seen |= 1u << which;
    if (which == CONTENT_LENGTH)
        return (found[LENGTH] = number_at(value, stop)) >= 0;
    if (which == CONNECTION)
        return says(value, stop, "keep-alive", 10);
    found[HOST + 2 * which] = value - head, found[HOST + 2 * which + 1] = stop - head;
    return true;
}

EXPORT i64 riata_parse_head(const u8 *head, i64 size, i64 *found) {
    const u8 *end = head + size;
    unsigned seen = 0;
    for (int word = 0; word < HEAD_WORDS; word++)
        found[word] = -1;
    i64 first = request_line(head, end, found);
    if (first <= 0)
        return first;
    const u8 *p = head + first;
    found[LINES] = 0;
    for (;;) {
        if (p + 1 >= end)
            return HEAD_INCOMPLETE;
        if (*p == '\r')
            break;
        const u8 *start = p;
        while (p < end && lower(*p))
            p++;
        if (p >= end)
            return HEAD_INCOMPLETE;
        int which = p > start && *p == ':' ? name_of(start, p) : REFUSED;
        if (which >= REFUSED && which != OTHER)
            return HEAD_NOT_PLAIN;
        for (p++; p < end && (*p == ' ' || *p == '\t');)
            p++;
        const u8 *value = p;
        while (p < end && in_value(*p))
            p++;
        if (p + 1 >= end)
            return HEAD_INCOMPLETE;
        if (*p != '\r' || p[1] != '\n' || (p > value && p[-1] <= ' ') || !take_header(head, value, p, which, &seen, found))
            return HEAD_NOT_PLAIN;
        found[LINES]++;
        p += 2;
    }
    if (p[1] != '\n' || found[HOST] < 0 || (!found[IS_POST] && found[LENGTH] > 0)) /* a GET has no body */
        return HEAD_NOT_PLAIN;
    found[LINES_BYTES] = p - head - first;
    return p + 2 - head;
}
