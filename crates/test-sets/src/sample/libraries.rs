//! The artifacts of the sample that the libraries and the device packages are made of.

use super::{
    device::{Kernels, bundled, object},
    sketch::Sketch,
};

/// The stage directories of what has device code; its keys in archives begin with them.
const BLAS: &str = "math-libs/BLAS/rocBLAS/stage";
const RCCL: &str = "comm-libs/rccl/stage";

/// What translation units of libraries have code for.
const BLAS_TARGETS: &[&str] = &["gfx1100", "gfx942", "gfx942:xnack+"];
const RCCL_TARGETS: &[&str] = &["gfx1100", "gfx942"];

const ROCBLAS: Kernels = Kernels {
    archive: "blas_lib",
    name: "math-libs/BLAS/rocBLAS/stage/lib/librocblas.so.5.1",
    units: &[24 << 10, 40 << 10],
    targets: BLAS_TARGETS,
};
const HIPBLASLT: Kernels = Kernels {
    archive: "blas_lib",
    name: "math-libs/BLAS/rocBLAS/stage/lib/libhipblaslt.so.1.0",
    units: &[32 << 10],
    targets: BLAS_TARGETS,
};
const COLLECTIVE: Kernels = Kernels {
    archive: "rccl_lib",
    name: "comm-libs/rccl/stage/lib/librccl.so.1.0",
    units: &[32 << 10],
    targets: RCCL_TARGETS,
};

pub(crate) fn sketches() -> Vec<Sketch> {
    let mut sketches = vec![blas(), blas_headers(), blas_tests(), solver(), random(), rpp()];
    sketches.extend([
        simple("fft_lib_generic", "libhipfft.so.0", "hipfft_answer"),
        simple("miopen_lib_generic", "libMIOpen.so.1", "miopen_answer"),
        simple("hipdnn_lib_generic", "libhipdnn_backend.so.0", "hipdnn_answer"),
        collective(),
    ]);
    sketches.extend([
        blas_code("blas_lib_gfx942", "gfx942"),
        blas_code("blas_lib_gfx942:xnack+", "gfx942:xnack+"),
        blas_code("blas_lib_gfx1100", "gfx1100"),
        collective_code("rccl_lib_gfx942", "gfx942"),
        collective_code("rccl_lib_gfx1100", "gfx1100"),
    ]);
    sketches
}

/// What every library that runs on a GPU looks like from outside: it needs the HIP runtime, which
/// only `rocm-sdk-core` has.
fn simple(artifact: &'static str, soname: &str, function: &str) -> Sketch {
    Sketch::xz(artifact).stage("math-libs/stage").library("lib", soname, ".0", |library| {
        library.needs("libamdhip64.so.7").calls(function, "hip_answer").runpath("$ORIGIN")
    })
}

fn blas() -> Sketch {
    Sketch::zst("blas_lib_generic")
        .stage(BLAS)
        .split_library("lib", "librocblas.so.5", ".1", &ROCBLAS, |library| {
            library
                .needs("libamdhip64.so.7")
                .needs("libhipblaslt.so.1")
                .needs("librocm-openblas.so.0")
                .needs("librocm_kpack.so.0")
                .calls("rocblas_answer", "hip_answer")
                .calls("rocblas_host_answer", "openblas_answer")
                .payload(512 << 10)
                .runpath("$ORIGIN")
        })
        .text("lib/rocblas/library/TensileLibrary.dat", "lazy: false\n")
        .split_library("lib", "libhipblaslt.so.1", ".0", &HIPBLASLT, |library| {
            library
                .needs("libamdhip64.so.7")
                .calls("hipblaslt_answer", "hip_answer")
                .runpath("$ORIGIN")
        })
        .stage("math-libs/BLAS/hipBLAS/stage")
        .library("lib", "libhipblas.so.3", ".0", |library| {
            library
                .needs("librocblas.so.5")
                .calls("hipblas_answer", "rocblas_answer")
                .runpath("$ORIGIN")
        })
        .library("lib", "liborigami.so.1", ".0", |library| library.function("origami_answer", 6))
}

fn blas_headers() -> Sketch {
    Sketch::xz("blas_dev_generic")
        .stage("math-libs/BLAS/rocBLAS/stage")
        .text("include/rocblas/rocblas.h", "#pragma once\n")
        .text("lib/cmake/rocblas/rocblas-config.cmake", "set(rocblas_FOUND TRUE)\n")
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
            library.needs("librocblas.so.5").calls(function, "rocblas_answer").rpath("$ORIGIN")
        })
    };
    let sketch = Sketch::zst("hipkernelprovider_lib_generic").stage("math-libs/sparse/stage");
    let sketch = library(sketch, "libhipsparse.so.4", "hipsparse_answer");
    let sketch = library(sketch, "libhipsparselt.so.0", "hipsparselt_answer");
    library(sketch, "libhipsolver.so.1", "hipsolver_answer")
}

fn random() -> Sketch {
    Sketch::zst("rand_lib_generic").stage("math-libs/rocRAND/stage").library(
        "lib",
        "libhiprand.so.1",
        ".1",
        |library| {
            library
                .needs("libamdhip64.so.7")
                .calls("hiprand_answer", "hip_answer")
                .runpath("$ORIGIN")
        },
    )
}

fn rpp() -> Sketch {
    Sketch::xz("rpp_lib_generic").stage("cv-libs/rpp/stage").library(
        "lib",
        "librpp.so.2",
        ".1",
        |library| {
            library.needs("libamdhip64.so.7").calls("rpp_answer", "hip_answer").runpath("$ORIGIN")
        },
    )
}

/// Device code of one target: an archive of kernels, and files named for the target.
pub fn blas_code(artifact: &str, target: &str) -> Sketch {
    let spelled = target.replace(':', "-");
    Sketch::zst(artifact)
        .stage(BLAS)
        .archive(&[ROCBLAS, HIPBLASLT], target)
        .bytes(
            &format!("lib/rocblas/library/Kernels.so-000-{spelled}.hsaco"),
            object("Kernels.so-000", target, 24 << 10),
        )
        .bytes(
            &format!("lib/rocblas/library/TensileLibrary_{spelled}.co"),
            bundled("TensileLibrary", target, 8 << 10),
        )
        .text(&format!("lib/rocblas/library/TensileLibrary_{spelled}.dat"), "kernels: 1\n")
}

fn collective() -> Sketch {
    Sketch::xz("rccl_lib_generic").stage(RCCL).split_library(
        "lib",
        "librccl.so.1",
        ".0",
        &COLLECTIVE,
        |library| {
            library.needs("libamdhip64.so.7").calls("rccl_answer", "hip_answer").runpath("$ORIGIN")
        },
    )
}

fn collective_code(artifact: &'static str, target: &str) -> Sketch {
    Sketch::xz(artifact).stage(RCCL).archive(&[COLLECTIVE], target)
}
