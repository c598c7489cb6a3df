//! The artifacts of the sample that the libraries and the device packages are made of.

use crate::artifact::sample::sketch::Sketch;

pub(super) fn sketches() -> Vec<Sketch> {
    let mut sketches = vec![
        blas(),
        blas_headers(),
        blas_tests(),
        solver(),
        random(),
        rpp(),
    ];
    sketches.extend([
        simple("fft_lib_generic", "libhipfft.so.0", "hipfft_answer"),
        simple("miopen_lib_generic", "libMIOpen.so.1", "miopen_answer"),
        simple(
            "hipdnn_lib_generic",
            "libhipdnn_backend.so.0",
            "hipdnn_answer",
        ),
        simple("rccl_lib_generic", "librccl.so.1", "rccl_answer"),
    ]);
    sketches.extend([
        device("blas_lib_gfx942", "gfx942", 1),
        device("blas_lib_gfx942:xnack+", "gfx942-xnack+", 2),
        device("blas_lib_gfx1100", "gfx1100", 3),
        collective("rccl_lib_gfx942", "gfx942", 4),
        collective("rccl_lib_gfx1100", "gfx1100", 5),
    ]);
    sketches
}

/// What every library that runs on a GPU looks like from outside: it needs the HIP runtime, which
/// only `rocm-sdk-core` has.
fn simple(artifact: &'static str, soname: &str, function: &str) -> Sketch {
    Sketch::xz(artifact)
        .stage("math-libs/stage")
        .library("lib", soname, ".0", |library| {
            library
                .needs("libamdhip64.so.7")
                .calls(function, "hip_answer")
                .runpath("$ORIGIN")
        })
}

fn blas() -> Sketch {
    Sketch::zst("blas_lib_generic")
        .stage("math-libs/BLAS/rocBLAS/stage")
        .library("lib", "librocblas.so.5", ".1", |library| {
            library
                .needs("libamdhip64.so.7")
                .needs("librocm-openblas.so.0")
                .needs("librocm_kpack.so.0")
                .calls("rocblas_answer", "hip_answer")
                .calls("rocblas_host_answer", "openblas_answer")
                .section(".rocm_kpack_ref", b"blas_lib")
                .payload(512 << 10)
                .runpath("$ORIGIN")
        })
        .text("lib/rocblas/library/TensileLibrary.dat", "lazy: false\n")
        .stage("math-libs/BLAS/hipBLAS/stage")
        .library("lib", "libhipblas.so.3", ".0", |library| {
            library
                .needs("librocblas.so.5")
                .calls("hipblas_answer", "rocblas_answer")
                .runpath("$ORIGIN")
        })
        .library("lib", "libhipblaslt.so.1", ".0", |library| {
            library
                .needs("libamdhip64.so.7")
                .calls("hipblaslt_answer", "hip_answer")
                .runpath("$ORIGIN")
        })
        .library("lib", "liborigami.so.1", ".0", |library| {
            library.function("origami_answer", 6)
        })
}

fn blas_headers() -> Sketch {
    Sketch::xz("blas_dev_generic")
        .stage("math-libs/BLAS/rocBLAS/stage")
        .text("include/rocblas/rocblas.h", "#pragma once\n")
        .text(
            "lib/cmake/rocblas/rocblas-config.cmake",
            "set(rocblas_FOUND TRUE)\n",
        )
}

/// Files that belong to no package.
fn blas_tests() -> Sketch {
    Sketch::xz("blas_test_generic")
        .stage("math-libs/BLAS/rocBLAS/stage")
        .tool("bin/rocblas-test", "[  PASSED  ] 0 tests.\n")
}

fn solver() -> Sketch {
    let library = |sketch: Sketch, soname: &str, function: &str| {
        sketch.library("lib", soname, ".0", |library| {
            library
                .needs("librocblas.so.5")
                .calls(function, "rocblas_answer")
                .rpath("$ORIGIN")
        })
    };
    let sketch = Sketch::zst("hipkernelprovider_lib_generic").stage("math-libs/sparse/stage");
    let sketch = library(sketch, "libhipsparse.so.4", "hipsparse_answer");
    let sketch = library(sketch, "libhipsparselt.so.0", "hipsparselt_answer");
    library(sketch, "libhipsolver.so.1", "hipsolver_answer")
}

fn random() -> Sketch {
    Sketch::zst("rand_lib_generic")
        .stage("math-libs/rocRAND/stage")
        .library("lib", "libhiprand.so.1", ".1", |library| {
            library
                .needs("libamdhip64.so.7")
                .calls("hiprand_answer", "hip_answer")
                .runpath("$ORIGIN")
        })
}

fn rpp() -> Sketch {
    Sketch::xz("rpp_lib_generic")
        .stage("cv-libs/rpp/stage")
        .library("lib", "librpp.so.2", ".1", |library| {
            library
                .needs("libamdhip64.so.7")
                .calls("rpp_answer", "hip_answer")
                .runpath("$ORIGIN")
        })
}

/// Device code of one target: an archive of kernels, and files named for the target.
fn device(artifact: &'static str, target: &str, seed: u64) -> Sketch {
    Sketch::zst(artifact)
        .stage("math-libs/BLAS/rocBLAS/stage")
        .bytes(
            &format!(".kpack/blas_lib_{target}.kpack"),
            noise(96 << 10, seed),
        )
        .bytes(
            &format!("lib/rocblas/library/Kernels.so-000-{target}.hsaco"),
            noise(24 << 10, seed + 10),
        )
        .text(
            &format!("lib/rocblas/library/TensileLibrary_{target}.dat"),
            "kernels: 1\n",
        )
}

fn collective(artifact: &'static str, target: &str, seed: u64) -> Sketch {
    Sketch::xz(artifact).stage("comm-libs/rccl/stage").bytes(
        &format!(".kpack/rccl_lib_{target}.kpack"),
        noise(32 << 10, seed),
    )
}

/// Bytes that do not compress, as device code mostly is by then.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
