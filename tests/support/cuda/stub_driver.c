/* A libcuda that prints its calls: a witness for what reaches the driver through NVIDIA's Python bindings. Memory of the "device"
   is memory of the host, kernels are not run. Symbols are found by cuGetProcAddress_v2, as the bindings look for them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef uint64_t u64; typedef unsigned u32;
#define SAY(...) do { printf(__VA_ARGS__); printf("\n"); fflush(stdout); } while (0)
int cuInit(u32 f) { SAY("cuInit %u", f); return 0; }
int cuDriverGetVersion(int *v) { *v = 12040; return 0; }
int cuDeviceGetCount(int *n) { *n = 2; return 0; }
int cuDeviceGet(int *d, int o) { *d = o + 70; return 0; }
int cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "Stub %d", d); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? 8 : a == 76 ? 0 : a == 1 ? 1024 : a == 97 ? 166912 : a == 115 ? 1 : a == 5 ? 0x7fffffff : 65535;
  SAY("attribute %d of %d", a, d); return 0; }
int cuDeviceTotalMem(u64 *n, int d) { *n = 1ull << 40; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = (void *)(u64)(0xc0000 + d); return 0; }
int cuCtxGetCurrent(void **c) { *c = 0; return 0; }
int cuCtxPushCurrent(void *c) { SAY("push %p", c); return 0; }
int cuCtxPopCurrent(void **c) { *c = 0; SAY("pop"); return 0; }
int cuStreamCreate(void **s, u32 f) { SAY("stream flags %u", f); *s = (void *)0x5; return 0; }
int cuStreamSynchronize(void *s) { SAY("sync %p", s); return s == (void *)0xbad ? 700 : 0; }
int cuStreamWaitEvent(void *s, void *e, u32 f) { SAY("wait %p %p %u", s, e, f); return 0; }
int cuStreamBeginCapture(void *s, int m) { SAY("begin %p %d", s, m); return 0; }
int cuStreamEndCapture(void *s, void **g) { SAY("end %p", s); *g = (void *)0x6; return 0; }
int cuEventCreate(void **e, u32 f) { SAY("event flags %u", f); *e = (void *)0xe; return 0; }
int cuEventRecord(void *e, void *s) { SAY("record %p %p", e, s); return 0; }
int cuEventSynchronize(void *e) { SAY("event sync %p", e); return 0; }
int cuEventDestroy(void *e) { SAY("event destroy %p", e); return 0; }
int cuEventElapsedTime(float *ms, void *a, void *b) { SAY("elapsed %p %p", a, b); *ms = 1.5f; return 0; }
int cuTensorMapEncodeTiled(void *map, int type, u32 rank, void *at, const u64 *dim, const u64 *stride, const u32 *box, const u32 *step, int interleave,
                           int swizzle, int l2, int fill) {
  SAY("map at multiple of 64: %d, type %d rank %u at %p dims %llu %llu %llu strides %llu %llu box %u %u %u steps %u %u %u interleave %d swizzle %d l2 %d fill %d",
      (u64)map % 64 == 0, type, rank, at, (unsigned long long)dim[0], (unsigned long long)dim[1], (unsigned long long)dim[2],
      (unsigned long long)stride[0], (unsigned long long)stride[1], box[0], box[1], box[2], step[0], step[1], step[2], interleave, swizzle, l2, fill);
  for (int i = 0; i < 128; i++) ((unsigned char *)map)[i] = i;
  return type == 99 ? 1 : 0; }
int cuGraphInstantiateWithFlags(void **x, void *g, u64 f) { SAY("instantiate %p %llu", g, (unsigned long long)f); *x = (void *)0x7; return 0; }
int cuGraphLaunch(void *x, void *s) { SAY("graph %p %p", x, s); return 0; }
int cuGraphExecDestroy(void *x) { SAY("exec destroy %p", x); return 0; }
int cuGraphDestroy(void *g) { SAY("graph destroy %p", g); return 0; }
int cuDeviceGetDefaultMemPool(void **p, int d) { *p = (void *)0x900; SAY("pool of %d", d); return 0; }
int cuMemPoolSetAttribute(void *p, int a, void *v) { SAY("pool %p %d %llu", p, a, *(unsigned long long *)v); return 0; }
int cuMemPoolTrimTo(void *p, u64 n) { SAY("trim %p %llu", p, (unsigned long long)n); return 0; }
int cuMemAllocAsync(u64 *a, u64 n, void *s) { SAY("alloc %llu %p", (unsigned long long)n, s);
  if (n > 1 << 20) return 2;
  *a = (u64)aligned_alloc(256, (n + 255) / 256 * 256); return 0; }
int cuMemFreeAsync(u64 a, void *s) { SAY("free %p", s); free((void *)a); return 0; }
int cuMemAlloc(u64 *a, u64 n) { *a = 126; SAY("plain alloc %llu", (unsigned long long)n); return 0; }
int cuMemFree(u64 a) { SAY("plain free %llu", (unsigned long long)a); return 0; }
int cuMemGetInfo(u64 *f, u64 *t) { *f = 11; *t = 22; return 0; }
int cuMemHostAlloc(void **p, u64 n, u32 f) { *p = malloc(n); SAY("host %llu %u", (unsigned long long)n, f); return 0; }
int cuMemFreeHost(void *p) { SAY("free host"); free(p); return 0; }
int cuMemcpyHtoDAsync(u64 d, void *s, u64 n, void *st) { SAY("htod %llu %p", (unsigned long long)n, st); memcpy((void *)d, s, n); return 0; }
int cuMemcpyDtoDAsync(u64 d, u64 s, u64 n, void *st) { SAY("dtod %llu %p", (unsigned long long)n, st); memcpy((void *)d, (void *)s, n); return 0; }
int cuMemcpyDtoHAsync(void *d, u64 s, u64 n, void *st) { SAY("dtoh %llu %p", (unsigned long long)n, st); memcpy(d, (void *)s, n); return 0; }
int cuPointerGetAttribute(void *v, int a, u64 p) { *(int *)v = 3; SAY("pointer %d", a); return 0; }
int cuModuleLoadDataEx(void **m, const char *image, u32 n, int *o, void **v) {
  SAY("module of %zu bytes, options %u: %d %d size %llu", strlen(image), n, o[0], o[1], (unsigned long long)v[1]);
  if (strstr(image, "bad")) { strcpy(v[0], "ptxas: line 3: bad"); return 218; }
  *m = (void *)0x33; return 0; }
int cuLibraryLoadData(void **l, const char *image, int *o, void **v, u32 n, int *lo, void **lv, u32 ln) {
  SAY("library of %zu bytes, options %u: %d %d size %llu, others %u", strlen(image), n, o[0], o[1], (unsigned long long)v[1], ln);
  if (strstr(image, "bad")) { strcpy(v[0], "ptxas: line 4: bad"); return 218; }
  *l = (void *)0x55; return 0; }
int cuLibraryGetModule(void **m, void *l) { SAY("module of %p", l); *m = (void *)0x34; return 0; }
int cuLibraryUnload(void *l) { SAY("unload library %p", l); return 0; }
int cuModuleGetFunction(void **f, void *m, const char *n) { *f = (void *)0x44; SAY("function %p '%s'", m, n); return 0; }
int cuModuleUnload(void *m) { SAY("unload %p", m); return 0; }
int cuFuncGetAttribute(int *v, int a, void *f) { *v = a == 0 ? 1024 : a == 1 ? 0 : 32; SAY("get %d %p", a, f); return 0; }
int cuFuncSetAttribute(void *f, int a, int v) { SAY("set %p %d %d", f, a, v); return 0; }
int cuLaunchKernel(void *f, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 sh, void *s, void **p, void **e) {
  SAY("launch %p grid %u %u %u block %u %u %u shared %u stream %p params %llx %d extra %p", f, gx, gy, gz, bx, by, bz, sh, s,
      *(unsigned long long *)p[0], *(u32 *)p[1], e); return 0; }
struct attr { int id; int pad; u32 value[16]; };
struct config { u32 g[3], b[3], sh; void *s; struct attr *at; u32 n; };
int cuLaunchKernelEx(struct config *c, void *f, void **p, void **e) {
  SAY("launchex %p grid %u %u %u block %u %u %u shared %u stream %p attrs %u id %d: %u %u %u params %llx %d", f, c->g[0], c->g[1], c->g[2],
      c->b[0], c->b[1], c->b[2], c->sh, c->s, c->n, c->at->id, c->at->value[0], c->at->value[1], c->at->value[2],
      *(unsigned long long *)p[0], *(u32 *)p[1]); return 0; }
int cuGetErrorString(int e, const char **s) { *s = e == 700 ? "an illegal memory access was encountered" : "other"; return 0; }
int cuGetErrorName(int e, const char **s) { *s = "CUDA_ERROR_X"; return 0; }
static struct { const char *n; void *f; } table[] = {
#define E(x) {#x, (void *)x},
E(cuInit)E(cuDriverGetVersion)E(cuDeviceGetCount)E(cuDeviceGet)E(cuDeviceGetName)E(cuDeviceGetAttribute)E(cuDeviceTotalMem)E(cuDevicePrimaryCtxRetain)
E(cuCtxGetCurrent)E(cuCtxPushCurrent)E(cuCtxPopCurrent)E(cuStreamCreate)E(cuStreamSynchronize)E(cuStreamWaitEvent)E(cuStreamBeginCapture)E(cuStreamEndCapture)
E(cuEventCreate)E(cuEventRecord)E(cuEventSynchronize)E(cuEventDestroy)E(cuEventElapsedTime)E(cuTensorMapEncodeTiled)E(cuGraphInstantiateWithFlags)E(cuGraphLaunch)E(cuGraphExecDestroy)E(cuGraphDestroy)
E(cuDeviceGetDefaultMemPool)E(cuMemPoolSetAttribute)E(cuMemPoolTrimTo)E(cuMemAllocAsync)E(cuMemFreeAsync)E(cuMemAlloc)E(cuMemFree)E(cuMemGetInfo)
E(cuMemHostAlloc)E(cuMemFreeHost)E(cuMemcpyHtoDAsync)E(cuMemcpyDtoHAsync)E(cuMemcpyDtoDAsync)E(cuPointerGetAttribute)E(cuModuleLoadDataEx)E(cuModuleGetFunction)E(cuModuleUnload)E(cuLibraryLoadData)E(cuLibraryGetModule)E(cuLibraryUnload)
E(cuFuncGetAttribute)E(cuFuncSetAttribute)E(cuLaunchKernel)E(cuLaunchKernelEx)E(cuGetErrorString)E(cuGetErrorName)
};
int cuGetProcAddress_v2(const char *n, void **f, int v, u64 flags, int *status) {
  *f = 0; if (status) *status = 1;
  for (unsigned i = 0; i < sizeof table / sizeof *table; i++) if (!strcmp(n, table[i].n)) { *f = table[i].f; if (status) *status = 0; return 0; }
  if (!strcmp(n, "cuGetProcAddress")||!strcmp(n, "cuGetProcAddress_v2")) { *f = (void*)cuGetProcAddress_v2; if (status) *status=0; return 0; }
  return 500; }
int cuGetProcAddress(const char *n, void **f, int v, u64 flags) { return cuGetProcAddress_v2(n, f, v, flags, 0); }
