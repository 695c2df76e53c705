# Compiled types of spread_map.py. Keys and values may be anything; what is called from outside takes them as
# Python does, and the rest the hash of a key.

cimport cython

cdef Py_ssize_t _FEW
cdef Py_ssize_t _BUCKET_ENTRIES
cdef unsigned long long _BITS
cdef unsigned long long _FACTOR
cdef unsigned long long _SECOND_FACTOR


cdef class SpreadMap:
    cdef Py_ssize_t _count
    cdef dict _first
    cdef list _buckets
    cdef unsigned long long _mask
    cpdef list bucket_keys(self, Py_ssize_t index)
    @cython.locals(buckets=list, index="unsigned long long")
    cpdef dict bucket_of(self, Py_hash_t hashed)
    @cython.locals(buckets=list, new="unsigned long long", parent="unsigned long long", stay=dict, move=dict)
    cdef void _entered(self)
    @cython.locals(buckets=list)
    cdef int _cut_empty_end(self) except -1
    cdef int _left(self) except -1


@cython.locals(bits="unsigned long long")
cdef unsigned long long _mixed(Py_hash_t hashed) noexcept
