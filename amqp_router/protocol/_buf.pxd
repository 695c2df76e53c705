from cpython.object cimport PyObject


cdef class Buf:
    cdef PyObject* _object
    cdef unsigned char* _data
    cdef Py_ssize_t _capacity
    cdef readonly Py_ssize_t size
    cdef int _grow(self, Py_ssize_t more) except -1
    cpdef int put(self, bytes data) except -1
    cpdef int put_range(self, bytes data, Py_ssize_t start, Py_ssize_t end) except -1
    cpdef int put_deliver(self, bytes prefix, unsigned long long tag, int redelivered, bytes route) except -1
    cpdef int u8(self, unsigned int value) except -1
    cpdef int u16(self, unsigned int value) except -1
    cpdef int u32(self, unsigned long value) except -1
    cpdef int u64(self, unsigned long long value) except -1
    cpdef int le16(self, unsigned int value) except -1
    cpdef int le32(self, unsigned long value) except -1
    cpdef int le64(self, unsigned long long value) except -1
    cpdef int set_u16(self, Py_ssize_t position, unsigned int value) except -1
    cpdef int set_u32(self, Py_ssize_t position, unsigned long value) except -1
    cpdef bytes take(self)
    cpdef int rest(self) except -1
    cpdef int clear(self) except -1
