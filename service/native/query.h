#ifndef RIATA_QUERY_H
#define RIATA_QUERY_H

#include "riata.h"

/* Read the query in the first `size` bytes of `query` into records; what is decoded is written behind it, as many bytes and two.
 * Returns how many records; -1 if the query is left to the general path: what that refuses, a name that begins with `_`, text fields
 * and a value that is not a number, a number next to a tie. */
i64 read_query(u8 *query, i64 size, riata_records *row, const riata_rules *rules);

/* Make the strings that come under one name a list: only the first of their names stays a key. Returns whether any changed. */
bool join_lists(riata_records *row, i64 n);

#endif
