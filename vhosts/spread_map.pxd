# Compiled types of spread_map.py.

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
    @cython.locals(bucket=dict)
    cpdef object get(self, object key, object default=*)
    @cython.locals(bucket=dict, before=Py_ssize_t)
    cpdef object setdefault(self, object key, object default)
    @cython.locals(bucket=dict, before=Py_ssize_t)
    cpdef object pop(self, object key, object default)
    cpdef list bucket_keys(self, Py_ssize_t index)
    cpdef object steady_keys(self)
    @cython.locals(buckets=list, index="unsigned long long")
    cdef dict _bucket(self, object key)
    @cython.locals(buckets=list, new="unsigned long long", parent="unsigned long long", stay=dict, move=dict)
    cdef object _entered(self)
    @cython.locals(buckets=list)
    cdef object _cut_empty_end(self)
    cdef object _left(self)


@cython.locals(spread=SpreadMap)
cpdef object roomy(object entries)
cpdef object steady_keys(object entries)


@cython.locals(bits="unsigned long long")
cdef unsigned long long _mixed(Py_hash_t hashed) noexcept
