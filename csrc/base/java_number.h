/* java_number.h: numbers as Java reads them from a text: what it takes, and what it takes them for. Private to csrc.
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
/* What surrounds it, up to a blank, is cut off; NaN, Infinity, exponents, hexadecimal ones, a suffix of d or f. 1, or 0 as above. */
int rp_java_real(rp_slice text, double *value);
/* Double.compare: below 0, 0, above 0; 0.0 is above -0.0, NaN above everything but itself. */
int rp_java_compare_reals(double left, double right);

#endif
