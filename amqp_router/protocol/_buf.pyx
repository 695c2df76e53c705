"""Growable output buffer, compiled twin of ``_buf.py``; see there for the meaning of each method."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.string cimport memcpy

from amqp_router.protocol.constants cimport FRAME_END

cdef enum:
    # What an emptied buffer may keep; a rare large burst must not pin its memory for ever.
    KEEP = 1 << 20
    # What an empty one that is not used for now may keep: there may be 100,000 of them.
    RESTING = 1 << 12
    # From this size on ``take`` hands over the buffer itself instead of a copy.
    HAND_OVER = 1 << 15

cdef extern from "Python.h":
    PyObject* _new "PyBytes_FromStringAndSize" (const char*, Py_ssize_t) except NULL
    int _resize "_PyBytes_Resize" (PyObject**, Py_ssize_t) except -1
    void _release "Py_XDECREF" (PyObject*)
    char* _octets "PyBytes_AS_STRING" (PyObject*)


cdef class Buf:

    def __cinit__(self):
        self._object = NULL
        self._data = NULL
        self._capacity = 0
        self.size = 0

    def __dealloc__(self):
        _release(self._object)

    def __len__(self):
        return self.size

    cdef int _grow(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t wanted = self.size + more
        cdef Py_ssize_t capacity = self._capacity * 2
        if capacity < wanted:
            capacity = wanted
        if capacity < 1024:
            capacity = 1024
        if self._object == NULL:
            self._object = _new(NULL, capacity)
        else:
            _resize(&self._object, capacity)
        self._data = <unsigned char*> _octets(self._object)
        self._capacity = capacity
        return 0

    cpdef int put(self, bytes data) except -1:
        cdef Py_ssize_t n = PyBytes_GET_SIZE(data)
        if self.size + n > self._capacity:
            self._grow(n)
        memcpy(self._data + self.size, PyBytes_AS_STRING(data), n)
        self.size += n
        return 0

    cpdef int put_range(self, bytes data, Py_ssize_t start, Py_ssize_t end) except -1:
        cdef Py_ssize_t n = end - start
        if start < 0 or n < 0 or end > PyBytes_GET_SIZE(data):
            raise IndexError("range outside the data")
        if self.size + n > self._capacity:
            self._grow(n)
        memcpy(self._data + self.size, PyBytes_AS_STRING(data) + start, n)
        self.size += n
        return 0

    cpdef int put_deliver(self, bytes prefix, unsigned long long tag, int redelivered, bytes route) except -1:
        cdef Py_ssize_t n = PyBytes_GET_SIZE(prefix)
        cdef Py_ssize_t r = PyBytes_GET_SIZE(route)
        cdef Py_ssize_t total = n + r + 10
        cdef unsigned char* p
        cdef unsigned long size = <unsigned long> (total - 8)
        if self.size + total > self._capacity:
            self._grow(total)
        p = self._data + self.size
        memcpy(p, PyBytes_AS_STRING(prefix), n)
        p[3] = (size >> 24) & 0xFF
        p[4] = (size >> 16) & 0xFF
        p[5] = (size >> 8) & 0xFF
        p[6] = size & 0xFF
        p += n
        p[0] = (tag >> 56) & 0xFF
        p[1] = (tag >> 48) & 0xFF
        p[2] = (tag >> 40) & 0xFF
        p[3] = (tag >> 32) & 0xFF
        p[4] = (tag >> 24) & 0xFF
        p[5] = (tag >> 16) & 0xFF
        p[6] = (tag >> 8) & 0xFF
        p[7] = tag & 0xFF
        p[8] = redelivered
        memcpy(p + 9, PyBytes_AS_STRING(route), r)
        p[9 + r] = FRAME_END
        self.size += total
        return 0

    cpdef int u8(self, unsigned int value) except -1:
        if self.size + 1 > self._capacity:
            self._grow(1)
        self._data[self.size] = value & 0xFF
        self.size += 1
        return 0

    cpdef int u16(self, unsigned int value) except -1:
        cdef unsigned char* p
        if self.size + 2 > self._capacity:
            self._grow(2)
        p = self._data + self.size
        p[0] = (value >> 8) & 0xFF
        p[1] = value & 0xFF
        self.size += 2
        return 0

    cpdef int u32(self, unsigned long value) except -1:
        if self.size + 4 > self._capacity:
            self._grow(4)
        self.size += 4
        return self.set_u32(self.size - 4, value)

    cpdef int u64(self, unsigned long long value) except -1:
        self.u32(<unsigned long> (value >> 32))
        return self.u32(<unsigned long> (value & 0xFFFFFFFF))

    cpdef int le16(self, unsigned int value) except -1:
        cdef unsigned char* p
        if self.size + 2 > self._capacity:
            self._grow(2)
        p = self._data + self.size
        p[0] = value & 0xFF
        p[1] = (value >> 8) & 0xFF
        self.size += 2
        return 0

    cpdef int le32(self, unsigned long value) except -1:
        cdef unsigned char* p
        if self.size + 4 > self._capacity:
            self._grow(4)
        p = self._data + self.size
        p[0] = value & 0xFF
        p[1] = (value >> 8) & 0xFF
        p[2] = (value >> 16) & 0xFF
        p[3] = (value >> 24) & 0xFF
        self.size += 4
        return 0

    cpdef int le64(self, unsigned long long value) except -1:
        self.le32(<unsigned long> (value & 0xFFFFFFFF))
        return self.le32(<unsigned long> (value >> 32))

    cpdef int set_u16(self, Py_ssize_t position, unsigned int value) except -1:
        if position < 0 or position + 2 > self.size:
            raise IndexError("position outside the buffer")
        self._data[position] = (value >> 8) & 0xFF
        self._data[position + 1] = value & 0xFF
        return 0

    cpdef int set_u32(self, Py_ssize_t position, unsigned long value) except -1:
        cdef unsigned char* p
        if position < 0 or position + 4 > self.size:
            raise IndexError("position outside the buffer")
        p = self._data + position
        p[0] = (value >> 24) & 0xFF
        p[1] = (value >> 16) & 0xFF
        p[2] = (value >> 8) & 0xFF
        p[3] = value & 0xFF
        return 0

    cpdef bytes take(self):
        cdef bytes data
        cdef Py_ssize_t size = self.size
        if size < HAND_OVER:
            data = PyBytes_FromStringAndSize(<char*> self._data, size)
            self.clear()
            return data
        _resize(&self._object, size)
        data = <bytes> self._object
        _release(self._object)
        self._object = NULL
        self._data = NULL
        # The next content is likely as large as this one.
        self._capacity = 0
        self.size = 0
        if size <= KEEP:
            self._grow(size)
        return data

    cpdef int rest(self) except -1:
        if self.size == 0 and self._capacity > RESTING:
            _release(self._object)
            self._object = NULL
            self._data = NULL
            self._capacity = 0
        return 0

    cpdef int clear(self) except -1:
        self.size = 0
        if self._capacity > KEEP:
            _release(self._object)
            self._object = NULL
            self._data = NULL
            self._capacity = 0
        return 0
