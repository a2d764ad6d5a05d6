// CUB's own one-dimensional scan beside a device copy of the same bytes: one line of JSON a size. Built and run by gpu.py.
#include <cub/cub.cuh>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void must(cudaError_t code)
{
        if (code == cudaSuccess)
                return;
        std::fprintf(stderr, "%s\n", cudaGetErrorString(code));
        std::exit(1);
}

template <class Work> static float median_ms(Work work)
{
        std::vector<float> times;
        cudaEvent_t start, stop;
        must(cudaEventCreate(&start));
        must(cudaEventCreate(&stop));
        for (int i = 0; i < 23; i++) {
                must(cudaEventRecord(start));
                work();
                must(cudaEventRecord(stop));
                must(cudaEventSynchronize(stop));
                float ms;
                must(cudaEventElapsedTime(&ms, start, stop));
                if (i >= 3)
                        times.push_back(ms);
        }
        std::sort(times.begin(), times.end());
        return times[times.size() / 2];
}

int main()
{
        for (int log2 : {20, 28, 30}) {
                long long n = 1ll << log2;
                float *x, *y;
                void *scratch = nullptr;
                size_t size = 0;
                must(cudaMalloc(&x, n * 4));
                must(cudaMalloc(&y, n * 4));
                must(cudaMemset(x, 1, n * 4));
                must(cub::DeviceScan::InclusiveSum(scratch, size, x, y, n));
                must(cudaMalloc(&scratch, size));
                float scan = median_ms([&] { must(cub::DeviceScan::InclusiveSum(scratch, size, x, y, n)); });
                float copy = median_ms([&] { must(cudaMemcpyAsync(y, x, n * 4, cudaMemcpyDeviceToDevice)); });
                std::printf("{\"n\": %lld, \"ms\": %.5f, \"copy_ms\": %.5f}\n", n, scan, copy);
                must(cudaFree(x));
                must(cudaFree(y));
                must(cudaFree(scratch));
        }
        return 0;
}
