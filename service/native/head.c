/* Heads of HTTP/1.1 requests. Source: RFC 9112 (request line, field lines), without its leniencies; RFC 9110 (fields). */
#include "text.h"

enum { HEAD_MALFORMED = 0, HEAD_INCOMPLETE = -1, METHOD_BYTES_MAX = 32, LENGTH_DIGITS_MAX = 19 };
enum { IS_USUAL, METHOD_STOP, TARGET_STOP, PATH_STOP, MINOR, LENGTH, LINES_BYTES, LINES, HOST, HEAD_WORDS = 18 };
/* Headers that are looked at. Those before CONTENT_LENGTH are handed out; a head with one from UNUSUAL on is not usual. */
enum { CONTENT_LENGTH = 5, CONNECTION, UNUSUAL, TRANSFER_ENCODING = UNUSUAL, OTHER = 13 };
static const char *const NAMES[OTHER] = {
    "host",       "accept",            "content-type",     "authorization", "idempotency-key", "content-length", "connection",
    "transfer-encoding", "content-encoding", "expect",      "upgrade",         "origin",         "sec-fetch-site",
};
static const u8 NAME_SIZES[OTHER] = {4, 6, 12, 13, 15, 14, 10, 17, 16, 6, 7, 6, 14};

/* The lower case of a byte that may be in a name; 0 for any other. */
static u8 lower(u8 c) {
    if ((u8)(c - 'a') < 26 || c == '-' || is_digit(c))
        return c;
    if ((u8)(c - 'A') < 26)
        return c | 32;
    return c != 0 && strchr("!#$%&'*+.^_`|~", c) ? c : 0;
}

static bool in_value(u8 c) { return (c >= ' ' && c != 0x7F) || c == '\t'; }

static bool in_target(u8 c) { return c > ' ' && c < 0x7F; }

static bool in_method(u8 c) { return (u8)(c - 'A') < 26 || c == '-'; }

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

/* The number that the bytes write in decimal digits, at most INT64_MAX; -1 if they do not. */
static i64 number_at(const u8 *start, const u8 *stop) {
    u64 number = 0;
    if (start == stop || stop - start > LENGTH_DIGITS_MAX)
        return -1;
    for (const u8 *p = start; p < stop; p++) {
        if (!is_digit(*p))
            return -1;
        number = 10 * number + (u64)(*p - '0');
    }
    return number < INT64_MAX ? (i64)number : INT64_MAX;
}

/* Read `word` at p. Returns 1 if it is there, HEAD_INCOMPLETE if as much of it as has arrived, otherwise HEAD_MALFORMED. */
static int expect(const u8 *p, const u8 *end, const char *word, i64 size) {
    for (i64 i = 0; i < size; i++) {
        if (p + i >= end)
            return HEAD_INCOMPLETE;
        if (p[i] != (u8)word[i])
            return HEAD_MALFORMED;
    }
    return 1;
}

/* Parse the first line into the words before LENGTH. Returns the offset of the next line, HEAD_MALFORMED or HEAD_INCOMPLETE. */
static i64 request_line(const u8 *head, const u8 *end, i64 *found) {
    const u8 *p = head, *query = NULL;
    while (p < end && p < head + METHOD_BYTES_MAX && in_method(*p))
        p++;
    found[METHOD_STOP] = p - head;
    int code = expect(p, end, " ", 1);
    if (code <= 0 || p == head)
        return p == end ? HEAD_INCOMPLETE : HEAD_MALFORMED;
    const u8 *target = ++p;
    bool has_fragment = false;
    for (; p < end && in_target(*p); p++) {
        has_fragment |= *p == '#';
        if (*p == '?' && !query)
            query = p;
    }
    found[TARGET_STOP] = p - head, found[PATH_STOP] = (query ? query : p) - head;
    if (p == target && p < end)
        return HEAD_MALFORMED;
    code = expect(p, end, " HTTP/1.", 8);
    if (code <= 0 || p + 8 == end)
        return code <= 0 ? code : HEAD_INCOMPLETE;
    found[MINOR] = p[8] - '0';
    bool is_post = found[METHOD_STOP] == 4 && !memcmp(head, "POST", 4), is_get = found[METHOD_STOP] == 3 && !memcmp(head, "GET", 3);
    found[IS_USUAL] = (is_post || is_get) && *target == '/' && !has_fragment && found[MINOR] == 1;
    code = (u8)found[MINOR] > 1 ? HEAD_MALFORMED : expect(p + 9, end, "\r\n", 2);
    return code <= 0 ? code : p + 11 - head;
}

/* Store what a header says. Returns false if it makes the head malformed; `seen` has a bit for each header so far. */
static bool take_header(const u8 *head, const u8 *value, const u8 *stop, int which, unsigned *seen, i64 *found) {
    if (which == OTHER)
        return true;
    bool is_again = *seen >> which & 1;
    *seen |= 1u << which;
    if (is_again || stop == value || which >= UNUSUAL || (which == CONNECTION && !says(value, stop, "keep-alive", 10)))
        found[IS_USUAL] = 0;
    if (which == CONTENT_LENGTH || which == TRANSFER_ENCODING) {
        if (which == CONTENT_LENGTH && (found[LENGTH] = number_at(value, stop)) < 0)
            return false;
        return !is_again && (*seen & (1u << CONTENT_LENGTH | 1u << TRANSFER_ENCODING)) == 1u << which;
    }
    if (which < CONTENT_LENGTH)
        found[HOST + 2 * which] = value - head, found[HOST + 2 * which + 1] = stop - head;
    return true;
}

EXPORT i64 riata_parse_head(const u8 *head, i64 size, i64 *found) {
    const u8 *end = head + size;
    unsigned seen = 0;
    for (int word = 0; word < HEAD_WORDS; word++)
        found[word] = -1;
    found[LINES] = found[LINES_BYTES] = 0;
    i64 first = request_line(head, end, found);
    if (first <= 0)
        return first;
    const u8 *p = head + first;
    for (; p < end && *p != '\r'; found[LINES]++) {
        found[LINES_BYTES] = end - head - first;
        const u8 *start = p;
        while (p < end && lower(*p))
            p++;
        if (p == end)
            return HEAD_INCOMPLETE;
        if (p == start || *p != ':')
            return HEAD_MALFORMED;
        int which = name_of(start, p);
        for (p++; p < end && (*p == ' ' || *p == '\t');)
            p++;
        const u8 *value = p;
        while (p < end && in_value(*p))
            p++;
        const u8 *stop = p;
        while (stop > value && stop[-1] <= ' ')
            stop--;
        int code = expect(p, end, "\r\n", 2);
        if (code <= 0)
            return code;
        if (!take_header(head, value, stop, which, &seen, found))
            return HEAD_MALFORMED;
        p += 2;
    }
    found[LINES_BYTES] = p - head - first;
    if (found[HOST] < 0 || (found[METHOD_STOP] == 3 && found[LENGTH] > 0)) /* a usual GET has no body */
        found[IS_USUAL] = 0;
    int code = expect(p, end, "\r\n", 2);
    return code <= 0 ? code : p + 2 - head;
}
