"""Further architectures of transformers with small configurations: windows, experts, detectors, series, speech, codes."""

from __future__ import annotations

from .torch_architectures import DECODER, IMAGE, PAIR, SIZES, Architecture, Config

_LAYERS = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
           "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}  # fmt: skip
_VISION = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 32,
           "patch_size": 8}  # fmt: skip
_DETECTOR = {**_LAYERS, "d_model": 32, "num_queries": 5}
_BOXES = {"names": ("pixel_values",), "results": ("logits", "pred_boxes")}
_EXPERTS = {**DECODER, "num_experts_per_tok": 2, "moe_intermediate_size": 16}


def _resnet(*features: str) -> Config:
    return Config("ResNetConfig", {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic",
                                   "out_features": [*features]})  # fmt: skip


def _alone(*features: str) -> dict[str, object]:
    """A backbone that is made here, not loaded."""
    return {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None,
            "backbone_config": _resnet(*features)}  # fmt: skip


LATER_ARCHITECTURES: dict[str, Architecture] = {
    # -- text --
    "gemma3": Architecture("Gemma3TextModel", "Gemma3TextConfig", {
        **DECODER, "head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}),
    "phi3": Architecture("Phi3Model", "Phi3Config", DECODER),
    "qwen3_moe": Architecture("Qwen3MoeModel", "Qwen3MoeConfig", {**_EXPERTS, "head_dim": 8, "num_experts": 4}),
    "deepseek_v3": Architecture("DeepseekV3Model", "DeepseekV3Config", {
        **_EXPERTS, "num_key_value_heads": 4, "n_routed_experts": 4, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1,
        "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8,
        "n_shared_experts": 1}),
    "falcon": Architecture("FalconModel", "FalconConfig", {
        "vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "use_cache": False}),
    "mpt": Architecture("MptModel", "MptConfig", {
        "vocab_size": 50, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 40, "use_cache": False}),
    "gptj": Architecture("GPTJModel", "GPTJConfig", {
        "vocab_size": 50, "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "n_positions": 40, "use_cache": False}),
    "mamba2": Architecture("Mamba2Model", "Mamba2Config", {
        "vocab_size": 50, "hidden_size": 16, "state_size": 8, "num_hidden_layers": 1, "num_heads": 4, "head_dim": 8,
        "n_groups": 1, "chunk_size": 4, "use_cache": False}),
    "nystromformer": Architecture("NystromformerModel", "NystromformerConfig", {
        **SIZES, "segment_means_seq_len": 8, "num_landmarks": 4, "conv_kernel_size": 3}, ("2x8",)),
    "xlnet": Architecture("XLNetModel", "XLNetConfig", {
        "vocab_size": 50, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48, "use_mems_eval": False},
        names=("input_ids",), results=("last_hidden_state",)),
    "mobilebert": Architecture("MobileBertModel", "MobileBertConfig", {
        "vocab_size": 50, "hidden_size": 32, "embedding_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
        "intermediate_size": 32, "intra_bottleneck_size": 16, "true_hidden_size": 16}),
    "convbert": Architecture("ConvBertModel", "ConvBertConfig", {**SIZES, "embedding_size": 32, "conv_kernel_size": 3}),
    "modernbert": Architecture("ModernBertModel", "ModernBertConfig", {
        **SIZES, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2,
        "local_attention": 4, "global_attn_every_n_layers": 2, "reference_compile": False}),
    "canine": Architecture("CanineModel", "CanineConfig", {
        "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48,
        "max_position_embeddings": 64, "num_hash_buckets": 64, "local_transformer_stride": 8, "upsampling_kernel_size": 4,
        "downsampling_rate": 4}, ("2x16",)),
    "esm": Architecture("EsmModel", "EsmConfig", {
        **SIZES, "pad_token_id": 0, "mask_token_id": 1, "position_embedding_type": "rotary"}),
    # -- images --
    "swinv2": Architecture("Swinv2Model", "Swinv2Config", {
        "image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}, IMAGE),
    "convnextv2": Architecture("ConvNextV2Model", "ConvNextV2Config", {
        "hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "patch_size": 4}, IMAGE),
    "focalnet": Architecture("FocalNetModel", "FocalNetConfig", {
        "image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "focal_levels": [2, 2], "focal_windows": [3, 3],
        "hidden_sizes": [16, 32]}, IMAGE),
    "hiera": Architecture("HieraModel", "HieraConfig", {
        "embed_dim": 16, "image_size": [32, 32], "patch_size": [7, 7], "patch_stride": [4, 4], "patch_padding": [3, 3],
        "depths": [1, 1], "num_heads": [1, 2], "query_stride": [2, 2], "masked_unit_size": [4, 4], "num_query_pool": 1,
        "masked_unit_attention": [True, False]}, IMAGE),
    "beit": Architecture("BeitModel", "BeitConfig", {**_VISION, "use_relative_position_bias": True}, IMAGE),
    "dinov2": Architecture("Dinov2Model", "Dinov2Config", _VISION, ("f2x3x40x40",)),
    "vit_mae": Architecture("ViTMAEModel", "ViTMAEConfig", {**_VISION, "mask_ratio": 0.0}, ("f2x3x32x32", "f2x16"),
                            names=("pixel_values", "noise"), results=("last_hidden_state",)),
    "siglip": Architecture("SiglipModel", "SiglipConfig", {
        "text_config": {**SIZES, "projection_size": 32}, "vision_config": _VISION}, ("2x9", "f2x3x32x32")),
    "groupvit": Architecture("GroupViTModel", "GroupViTConfig", {
        "text_config": SIZES, "projection_dim": 16, "projection_intermediate_dim": 16,
        "vision_config": {
            "hidden_size": 16, "depths": [1, 1], "num_hidden_layers": 2, "num_group_tokens": [4, 0],
            "num_output_groups": [4, 2], "num_attention_heads": 2, "intermediate_size": 16, "image_size": 32,
            "patch_size": 8}}, ("2x9", "f2x3x32x32")),
    "yolos": Architecture("YolosForObjectDetection", "YolosConfig", {
        **_VISION, "image_size": [32, 32], "num_detection_tokens": 5}, IMAGE, **_BOXES),
    "detr": Architecture("DetrForObjectDetection", "DetrConfig", {**_DETECTOR, **_alone("stage2")}, ("f2x3x64x64",), **_BOXES),
    "deformable_detr": Architecture("DeformableDetrForObjectDetection", "DeformableDetrConfig", {
        **_DETECTOR, "decoder_layers": 2, **_alone("stage1", "stage2"), "num_feature_levels": 2}, ("f1x3x64x64",), **_BOXES),
    # -- sound, series, actions --
    "hubert": Architecture("HubertModel", "HubertConfig", {
        "vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48,
        "conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2,
        "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "mask_time_prob": 0.0}, ("f2x400",)),
    "led": Architecture("LEDModel", "LEDConfig", {
        **PAIR, "encoder_layers": 1, "decoder_layers": 1, "max_encoder_position_embeddings": 64,
        "max_decoder_position_embeddings": 64, "attention_window": 4, "use_cache": False}, ("2x8", "2x7"), True),
    "patchtst": Architecture("PatchTSTForPrediction", "PatchTSTConfig", {
        "num_input_channels": 3, "context_length": 16, "patch_length": 4, "patch_stride": 4, "num_hidden_layers": 1,
        "d_model": 16, "num_attention_heads": 2, "ffn_dim": 16, "prediction_length": 4}, ("f2x16x3",),
        names=("past_values",), results=("prediction_outputs",)),
    "time_series": Architecture("TimeSeriesTransformerModel", "TimeSeriesTransformerConfig", {
        **_LAYERS, "prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2], "num_time_features": 1, "d_model": 16,
        "use_cache": False}, ("f2x10", "f2x10x1", "f2x10", "f2x4", "f2x4x1"),
        names=("past_values", "past_time_features", "past_observed_mask", "future_values", "future_time_features"),
        results=("last_hidden_state",)),
    "decision_transformer": Architecture("DecisionTransformerModel", "DecisionTransformerConfig", {
        "state_dim": 3, "act_dim": 2, "hidden_size": 16, "n_layer": 1, "n_head": 2, "max_ep_len": 50},
        ("f2x5x3", "f2x5x2", "f2x5x1", "f2x5x1", "2x5", "2x5"),
        names=("states", "actions", "rewards", "returns_to_go", "timesteps", "attention_mask"),
        results=("state_preds", "action_preds")),
}  # fmt: skip
