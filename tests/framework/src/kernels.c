/* The library of the framework: it calls two libraries of ROCm, and has device code. */

int hipblas_answer(void);
int rocblas_answer(void);

/* What clang makes of kernels: a bundle of code objects, and a record of where it is. */
__asm__(".pushsection .hip_fatbin,\"a\",@progbits\n"
        ".p2align 12\n"
        ".hidden kernels\n"
        ".globl kernels\n"
        "kernels: .incbin \"kernels.bundle\"\n"
        ".popsection\n");
extern const char kernels[] __attribute__((visibility("hidden")));

struct wrapper {
  unsigned magic, version;
  const void *bundle, *unused;
};
__attribute__((section(".hipFatBinSegment"), used)) static struct wrapper wrapper = {
    0x48495046, 1, kernels, 0};

int fw_answer(void) { return hipblas_answer() + rocblas_answer(); }
