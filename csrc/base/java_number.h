/* java_number.h: which texts Java reads as numbers, and which numbers it makes of them. Private to csrc.
 * Java SE 17: Integer.valueOf(String), Long.valueOf(String), Double.valueOf(String); digits are ASCII ones.
 *
 * Threads  pure functions.
 */
#ifndef RP_BASE_JAVA_NUMBER_H
#define RP_BASE_JAVA_NUMBER_H

#include <stdint.h>

#include "slice.h"

#define RP_JAVA_REAL_SIZE_MAX 1024u /* of a text that is read as a real number; a longer one does not count as a number here */

/* A sign at most, then digits, nothing else. 1: *value is within [min, max]; 0: NumberFormatException. */
int rp_java_integer(rp_slice text, int64_t min, int64_t max, int64_t *value);
/* Characters up to the blank (U+0020) are cut off at both ends, as String.trim does; NaN, Infinity, exponents, hexadecimal numbers and a
 * suffix of d or f are understood. 1, or 0 as above. */
int rp_java_real(rp_slice text, double *value);
/* Double.compare: below 0, 0, above 0; 0.0 is above -0.0, NaN above everything but itself. */
int rp_java_compare_reals(double left, double right);

#endif
